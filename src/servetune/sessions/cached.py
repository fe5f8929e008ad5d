"""What a cache of answers did under a load: its hits, their latency, and those that are wrong."""

from collections import defaultdict
from typing import Any

import pandas as pd

from servetune.load.generator import CACHED, EXACT, SEMANTIC, Reply
from servetune.load.schedule import ScheduledRequest
from servetune.records.cached import CachedAnswers, KindOfQuestion, WrongHit

MOST_SHOWN = 12
"""So many wrong hits are kept in a record: a page of them."""

LONGEST = 300
"""Characters of a question in a record."""


def cached_answers(
    requests: pd.DataFrame, replies: list[Reply], schedule: list[ScheduledRequest]
) -> CachedAnswers | None:
    """Return what the cache did; None where no answer tells of one.

    An answer from the cache was stored for a question that got the same text from the server.
    """
    ok = requests[requests["is_ok"] & requests["is_counted"]]
    if ok["cache"].isna().all():
        return None
    hits = ok[ok["cache"].isin(CACHED)]
    said = {reply.scheduled: reply for reply in replies}
    stored: dict[str, set[str]] = defaultdict(set)
    for index in requests.loc[requests["is_ok"] & (requests["cache"] == "miss"), "scheduled"]:
        stored[_text(said[index])].add(_question(schedule[index]))
    firsts = {each.pair: _question(each) for each in schedule if each.pair and each.is_same is None}
    wrong: dict[int, set[str]] = {}
    unknown = 0
    for index in hits["scheduled"]:
        request, questions = schedule[index], stored.get(_text(said[index]), set())
        if not questions:
            unknown += 1
        elif not _right(request, firsts.get(request.pair or ""), questions):
            wrong[index] = questions
    misses = ok[ok["cache"] == "miss"]
    return CachedAnswers(
        requests=len(ok),
        exact=int((ok["cache"] == EXACT).sum()),
        semantic=int((ok["cache"] == SEMANTIC).sum()),
        misses=len(misses),
        bypassed=int((ok["cache"] == "bypass").sum()),
        wrong=len(wrong),
        unknown=unknown,
        kinds=_kinds(ok, wrong),
        first_wrong=_shown(wrong, schedule, said),
        **_latencies("hit", hits),
        **_latencies("miss", misses),
    )


def _right(request: ScheduledRequest, first: str | None, questions: set[str]) -> bool:
    """Tell whether an answer to one of the questions is one to a request."""
    if _question(request) in questions:
        return True
    return bool(request.is_same) and first in questions


def _question(request: ScheduledRequest) -> str:
    """Return what a request asks, without what stands before it."""
    last = request.messages[-1]["content"] if request.messages else request.prompt
    return str(last)


def _text(reply: Reply) -> str:
    return (reply.text or "").strip()


def _latencies(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    if rows.empty:
        return {}
    return {
        f"{name}_e2e_p50_ms": float(rows["e2e_ms"].quantile(0.5)),
        f"{name}_e2e_p99_ms": float(rows["e2e_ms"].quantile(0.99)),
        f"{name}_ttft_p50_ms": float(rows["ttft_ms"].quantile(0.5)),
    }


def _kinds(ok: pd.DataFrame, wrong: dict[int, set[str]]) -> list[KindOfQuestion]:
    return [
        KindOfQuestion(
            name=str(name),
            requests=len(rows),
            hits=int(rows["cache"].isin(CACHED).sum()),
            wrong=int(rows["scheduled"].isin(wrong).sum()),
        )
        for name, rows in ok[ok["class"].notna()].groupby("class", sort=True)
    ]


def _shown(
    wrong: dict[int, set[str]], schedule: list[ScheduledRequest], said: dict[int, Reply]
) -> list[WrongHit]:
    found = [
        WrongHit(
            kind=schedule[index].class_name or "other",
            asked=_question(schedule[index])[:LONGEST],
            answered=min(questions)[:LONGEST],
            similarity=said[index].similarity,
        )
        for index, questions in wrong.items()
    ]
    return sorted(found, key=lambda hit: -(hit.similarity or 0.0))[:MOST_SHOWN]
