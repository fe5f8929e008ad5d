"""The validity card of every measurement, and each rule over all of them."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from servetune.analysis.wording import NONE, number, plural, ratio, share, whole
from servetune.records.measurements import Card, Check
from servetune.report.validity.rules import SHOWN, Row, Shown
from servetune.tables.frames import records_of, with_numbers

Verdict = Literal["pass", "broken", "not judged"]


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
    alone = int(table.loc[table["status"] == "ok", "tokens_confirmed_by"].isna().sum())
    if not alone:
        return []
    return [
        f"The output tokens of {plural(alone, 'measurement')} are as the server counted them: the"
        " client could not confirm them."
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
        ("Preemptions in the server's log", card.log_preemptions, whole),
        ("Prompt tokens from KV tiers", card.tier_hit_ratio, share),
    )
    tiers = ", ".join(card.kept_tiers)
    cores = ", ".join(map(share, card.client_process_cpu_ratios or ()))
    return CardOf(
        row,
        lines=[_line(rule, row, card, checks.get(rule.rule)) for rule in rules],
        told=[
            *((name, write(value)) for name, value, write in unjudged if value is not None),
            *([("First errors", card.first_error)] if card.first_error else []),
            *(("Warning in the server's log", line) for line in card.log_warnings or []),
            *([("KV tiers that cannot be emptied", tiers)] if tiers else []),
            *([("Client processes, of a core each", cores)] if cores else []),
        ],
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
