"""The validity card of every measurement, in the words and units of a performance engineer."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from servetune.analysis.wording import NONE, number, plural, ratio, share, whole
from servetune.records.agreement import COUNTED, token_sources
from servetune.records.measurements import Card, Check
from servetune.tables.frames import known, records_of, with_numbers

Verdict = Literal["pass", "broken", "not judged"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """How a rule is shown.

    `limit` writes a value in the unit that the rule judges; `seen` says what was seen, where the
    card tells more than that value. A rule without `limit` asks for something: `asks`.
    """

    rule: str
    title: str
    short: str
    limit: Callable[[float], str] | None = None
    seen: Callable[[Row, Card], str | None] = lambda row, card: None
    asks: str = ""


@dataclass(frozen=True)
class Line:
    """One rule on the card of one measurement."""

    shown: Shown
    seen: str
    limit: str
    verdict: Verdict
    value: float | None
    reason: str


@dataclass(frozen=True)
class CardOf:
    """The card of one measurement; `told` is what no rule judges: a name and what was seen."""

    row: Row
    lines: list[Line]
    told: list[tuple[str, str]]

    @property
    def broken(self) -> list[Line]:
        """The rules that it breaks."""
        return [line for line in self.lines if line.verdict == "broken"]

    def count(self, verdict: Verdict) -> int:
        """Count the rules of a verdict."""
        return sum(line.verdict == verdict for line in self.lines)


@dataclass(frozen=True)
class Tally:
    """One rule over all measurements, with the highest value seen."""

    shown: Shown
    limit: str
    highest: str
    counts: Counter[Verdict]


def _hits(row: Row, card: Card) -> str | None:
    seen, implied = known(row["prefix_cache_hit_ratio"]), card.implied_prefix_cache_hit_ratio
    by_answers = (card.answers_hit_ratio, "by the answers")
    parts = [
        f"{share(value)} {words}"
        for value, words in ((seen, "seen"), by_answers, (implied, "implied by the workload"))
        if value is not None
    ]
    return ", ".join(parts) or None


def _rates(row: Row, card: Card) -> str | None:
    offered, sent = card.offered_rate_rps, card.sent_rate_rps
    if not offered or sent is None:
        return None
    return f"{offered:.3g}/s offered, {sent:.3g}/s sent ({share(abs(sent / offered - 1))} off)"


def _delay(row: Row, card: Card) -> str | None:
    delays = (("p50", card.send_delay_p50_ms), ("p99", card.send_delay_p99_ms))
    parts = [f"{name} {number(value)} ms" for name, value in delays if value is not None]
    return ", ".join(parts) or None


def _preemptions(row: Row, card: Card) -> str | None:
    count, of = known(row["preemptions"]), known(row["requests"])
    return None if count is None or not of else f"{count:,.0f} ({count / of:.2g} a request)"


def _throttled(row: Row, card: Card) -> str | None:
    if card.throttled_ratio is None:
        return None
    reasons = f" ({', '.join(card.throttle_reasons)})" if card.throttle_reasons else ""
    return f"{share(card.throttled_ratio)} of the time{reasons}"


def _counted(row: Row, card: Card) -> str | None:
    parts = [
        f"{ratio:.1%} {words}"
        for ratio, words in ((getattr(card, name), words) for name, words in COUNTED.items())
        if ratio is not None
    ]
    return ", ".join(parts) or None


def _texts(row: Row, card: Card) -> str | None:
    errors = (("input", card.text_input_error_ratio), ("output", card.text_output_error_ratio))
    return ", ".join(f"{name} {share(ratio)} off" for name, ratio in errors if ratio is not None)


def _tpot(row: Row, card: Card) -> str | None:
    ratio = card.server_tpot_ratio
    return None if ratio is None else f"{ratio:.1%} of the server's"


def _slots(row: Row, card: Card) -> str | None:
    used = card.slots_used_ratio
    return None if used is None else f"{share(used)} of the concurrency"


def _in_flight(row: Row, card: Card) -> str | None:
    client, server = card.in_flight_mean, card.server_in_flight_mean
    if client is None or server is None:
        return None
    return f"{client:.3g} at the client, {server:.3g} at the server"


def _chunks(row: Row, card: Card) -> str | None:
    per_chunk, per_step = card.tokens_per_chunk, card.tokens_per_step
    if per_chunk is None or per_step is None:
        return None
    return f"{per_chunk:.3g} tokens a chunk, {per_step:.3g} a step"


def _sources(row: Row, card: Card) -> str | None:
    return ", ".join(token_sources(card)) or None


def _part(count: Any, of: Any) -> str | None:
    count, of = known(count), known(of)
    return None if count is None or not of else f"{count:,.0f} of {of:,.0f} ({share(count / of)})"


def _share_of(total: str) -> Callable[[float], str]:
    return lambda value: f"{share(value)} of {total}"


def _missing(value: float) -> str:
    return f"{share(value)} missing"


def _either(field: str, yes: str, no: str) -> Callable[[Row, Card], str | None]:
    return lambda row, card: {True: yes, False: no, None: None}[getattr(card, field)]


def _none_of(field: str, some: str) -> Callable[[Row, Card], str | None]:
    def seen(row: Row, card: Card) -> str | None:
        count: int | None = getattr(card, field)
        return None if count is None else f"{count:,} {some}" if count else "all"

    return seen


SHOWN = (
    Shown(
        *("failed-requests", "Failed requests", "Failed", share),
        seen=lambda row, card: _part(row["failed_requests"], row["requests"]),
    ),
    Shown(
        *("warm-prefix-cache", "Prefix-cache hit rate", "Prefix cache"),
        limit=lambda value: f"{value * 100:.2g} points above implied",
        seen=_hits,
    ),
    Shown("offered-rate", "Request rate", "Rate", lambda value: f"{share(value)} off", _rates),
    Shown("client-late", "Send delay", "Send delay", lambda v: f"p99 {v:.3g} ms", _delay),
    Shown("client-cpu", "Client CPU", "Client CPU", _share_of("one core")),
    Shown("client-starved", "Client waiting for a core", "Client wait", _share_of("the time")),
    Shown(
        *("output-length", "Answers of another length", "Lengths", share),
        seen=lambda row, card: _part(card.wrong_length_requests, row["completed_requests"]),
    ),
    Shown(
        *("preemptions", "Preemptions", "Preemptions"),
        limit=lambda value: f"{value:.2g} a request",
        seen=_preemptions,
    ),
    Shown("other-processes", "CPU use of other processes", "Other CPU", _share_of("all cores")),
    Shown("other-gpu-processes", "Other processes on the GPU", "Other GPU", whole),
    Shown(
        *("other-gpu-memory", "GPU memory of others", "Other GPU memory"),
        limit=lambda value: f"{value:.2g} GiB taken and given back",
    ),
    Shown(
        *("gpu-busy-while-idle", "GPU busy without a request", "GPU while idle"),
        limit=_share_of("the time"),
    ),
    Shown("throttled", "GPU clocks throttled", "Throttling", _share_of("the time"), _throttled),
    Shown(
        *("no-prefix-cache-reset", "Prefix cache emptied", "Reset"),
        seen=_either("prefix_cache_was_reset", "before the load", "refused by the server"),
        asks="before the load",
    ),
    Shown(
        *("counters-missing", "Counters of the server", "Counters"),
        seen=_either("counters_were_read", "read before and after", "/metrics did not answer"),
        asks="read before and after",
    ),
    Shown(
        *("ended-early", "Whole duration loaded", "Duration"),
        seen=_either("ended_early", "the dataset ended early", "until the end"),
        asks="until the end",
    ),
    Shown(
        *("server-counters", "Counters of the server against the answers", "Counts"),
        limit=lambda value: f"{share(value)} off",
        seen=_counted,
    ),
    Shown("answer-texts", "Texts against usage", "Texts", lambda v: f"{share(v)} off", _texts),
    Shown("same-answers", "Answers of another prompt", "Same", share),
    Shown("surplus-chunks", "Surplus chunks", "Surplus", share, _chunks),
    Shown("coarse-chunks", "Largest chunk", "Chunks", _share_of("an answer"), _chunks),
    Shown("coalesced-chunks", "Chunks that came together", "Coalesced", share),
    Shown(
        *("faster-than-server", "TPOT at the client", "TPOT"),
        limit=lambda value: f"{share(value)} below the server's",
        seen=_tpot,
    ),
    Shown(
        "missing-load",
        "Concurrency in flight",
        "In flight",
        lambda v: f"{share(v)} missing",
        _slots,
    ),
    Shown(
        "unserved-load", "Load at the server", "Served", lambda v: f"{share(v)} missing", _in_flight
    ),
    Shown(
        *("counters-reset", "Counters only grew", "Growth"),
        seen=_either("counters_went_back", "one fell", "during the load"),
        asks="during the load",
    ),
    Shown(
        *("usage-missing", "Usage in every answer", "Usage"),
        seen=_none_of("answers_without_usage", "answers without"),
        asks="in all",
    ),
    Shown(
        *("other-model", "Answers of the model asked", "Model"),
        seen=_none_of("other_model_answers", "answers of another"),
        asks="all",
    ),
    Shown(
        *("tokens-confirmed", "Output tokens confirmed by", "Tokens"),
        seen=_sources,
        asks="a second source",
    ),
)
"""The rules, in the order in which they are shown."""


def cards(table: pd.DataFrame) -> list[CardOf]:
    """Make the card of every row of the table that has numbers to judge, in its order."""
    rows = records_of(with_numbers(table))
    checks = [{made["rule"]: Check(**made) for made in json.loads(row["checks"])} for row in rows]
    described = {shown.rule for shown in SHOWN}
    # A rule that is not described here is shown by its own name.
    others = dict.fromkeys(rule for of_row in checks for rule in of_row if rule not in described)
    titles = {rule: rule.replace("-", " ").capitalize() for rule in others}
    rules = [*SHOWN, *(Shown(rule, title, title, number) for rule, title in titles.items())]
    return [_card_of(row, of_row, rules) for row, of_row in zip(rows, checks, strict=True)]


def warnings(table: pd.DataFrame) -> list[str]:
    """Say of how many measurements that are ok the output tokens are the server's word alone."""
    texts = table.loc[table["status"] == "ok", "card"]
    alone = sum(not token_sources(Card.model_validate_json(text)) for text in texts)
    if not alone:
        return []
    return [
        f"The output tokens of {plural(alone, 'measurement')} are the server's word alone: nothing"
        " that the client counted confirms them."
    ]


def tallies(shown: list[CardOf]) -> list[Tally]:
    """Count over all cards how each rule was kept."""
    return [_tally(lines) for lines in zip(*(card.lines for card in shown), strict=True)]


def _card_of(row: Row, checks: dict[str, Check], rules: list[Shown]) -> CardOf:
    card = Card.model_validate_json(row["card"])
    unjudged: tuple[tuple[str, float | None, Callable[[float], str]], ...] = (
        ("Client memory", card.client_memory_bytes, lambda value: f"{number(value / 2**20)} MiB"),
        ("Front end, of one core", card.front_end_cpu_ratio, share),
        ("Sends close together", card.send_crowding, lambda value: f"{ratio(value)} chance"),
        ("Requests left out as too long", card.rejected_requests, whole),
        ("Requests cut to fit", card.truncated_requests, whole),
    )
    return CardOf(
        row,
        lines=[_line(rule, row, card, checks.get(rule.rule)) for rule in rules],
        told=[(name, write(value)) for name, value, write in unjudged if value is not None],
    )


def _line(shown: Shown, row: Row, card: Card, check: Check | None) -> Line:
    value = check.value if check else None
    seen = shown.seen(row, card)
    if seen is None and shown.limit and value is not None:
        seen = shown.limit(value)
    return Line(
        shown=shown,
        seen=seen or "not known",
        limit=_at_most(shown, check) if shown.limit else shown.asks,
        verdict=_verdict(shown, seen, check),
        value=value,
        reason=(check.reason or "") if check else "",
    )


def _at_most(shown: Shown, check: Check | None) -> str:
    if check is None or shown.limit is None:
        return NONE
    return "no limit" if check.limit is None else f"at most {shown.limit(check.limit)}"


def _verdict(shown: Shown, seen: str | None, check: Check | None) -> Verdict:
    if check and check.is_broken:
        return "broken"
    if shown.asks:  # such a rule is among the checks only where it is broken
        return "pass" if seen else "not judged"
    return "not judged" if check is None or None in (check.value, check.limit) else "pass"


def _tally(lines: tuple[Line, ...]) -> Tally:
    shown = lines[0].shown
    values = [line.value for line in lines if line.value is not None]
    return Tally(
        shown=shown,
        limit=next((line.limit for line in lines if line.limit != NONE), NONE),
        highest=shown.limit(max(values)) if values and shown.limit else NONE,
        counts=Counter(line.verdict for line in lines),
    )
