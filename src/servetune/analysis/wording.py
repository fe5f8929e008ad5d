"""Numbers, load points and commands as a reader sees them, in findings and every rendering."""

import json
import math
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from servetune.numbers import NBSP, NONE, known, number, percent
from servetune.tables.frames import PENDING, grouped

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"


def ratio(value: Any, digits: int = 2) -> str:
    """Write a ratio to the baseline with its sign: 0.84 times."""
    value = known(value)
    if value is None:
        return NONE
    is_short = value < 10 - 0.5 / 10**digits
    return f"{value:.{digits}f}{TIMES}" if is_short else f"{number(value)}{TIMES}"


def change(value: Any) -> str:
    """Write a ratio as a person says it: +38 %, -4.5 %, and 3.2 times from 2 on."""
    value = known(value)
    if value is None:
        return NONE
    if value >= 2:
        return ratio(value, digits=1)
    percents = 100 * (value - 1)
    digits = 0 if abs(percents) >= 9.95 else 1
    text = f"{percents:+.{digits}f}{NBSP}%".replace("-", MINUS)
    return text.replace("+0.0", "0").replace(f"{MINUS}0.0", "0")


def proportion(value: float | None) -> str:
    """Write a proportion as a percentage, a small one with two digits: 71 %, 0.024 %."""
    if value is None or value == 0 or value >= 0.0995:
        return percent(value)
    return f"{100 * value:.2g}{NBSP}%"


def short(value: float) -> str:
    """Write a number with three digits: 6.21."""
    return f"{value:.3g}"


def ms(value: float | None) -> str:
    """Write milliseconds: 4.95 ms, 1,310 ms."""
    if value is None:
        return NONE
    return f"{value:,.0f} ms" if value >= 100 else f"{short(value)} ms"


def seconds(value: float) -> str:
    """Write seconds: 78.7 s, 1,310 s."""
    return f"{value:,.0f} s" if value >= 1000 else f"{short(value)} s"


def span(values: list[float], write: Any = ratio) -> str:
    """Write the range of some numbers, once if it is all the same: 0.78 to 0.84 times."""
    low, high = write(min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"


def load_of(row: dict[str, Any]) -> str:
    """Say a load point in words: concurrency 8, 2.5 requests/s, or batch, all at once.

    A rate is of conversations where the load has any: their later turns follow by themselves.
    """
    concurrency, rate = known(row.get("concurrency")), known(row.get("rate_rps"))
    if is_closed_loop(row):
        return f"concurrency {concurrency:g}"
    cap = "" if concurrency is None else f", at most {concurrency:g} in flight"
    if rate is not None:
        of = "request" if known(row.get("conversations")) is None else "conversation"
        many = "" if rate == 1 else "s"
        return ("batch, all at once" if math.isinf(rate) else f"{rate:g} {of}{many}/s") + cap
    scale = re.search(r"(?:^|-)t([\d.e+-]+)$", row["load_point"])
    if not scale:
        return str(row["load_point"])
    return f"trace, its times {TIMES} {scale[1]}{cap}" if scale[1] != "1" else f"trace{cap}"


def place_of(row: dict[str, Any]) -> tuple[str, str]:
    """Return the workload and the load point of a row."""
    return row["workload"], row["load_point"]


def variants_by_place(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Name the variants of rows by workload and load point, each once."""
    at = grouped(rows, place_of)
    return {place: list(dict.fromkeys(row["variant"] for row in at[place])) for place in at}


def is_batch(row: dict[str, Any]) -> bool:
    """Tell whether a load point sends all of its requests at once: it has no rate to draw."""
    rate = known(row.get("rate_rps"))
    return rate is not None and math.isinf(rate)


def is_closed_loop(row: dict[str, Any]) -> bool:
    """Tell whether clients send again once they are answered, and nothing else sets the pace."""
    concurrency, rate = known(row.get("concurrency")), known(row.get("rate_rps"))
    return concurrency is not None and rate is None and "t" not in row["load_point"]


def is_paced(row: dict[str, Any]) -> bool:
    """Tell whether a rate or a trace sets the pace: the throughput is then that of the pace."""
    return not is_closed_loop(row) and not is_batch(row)


def where_of(row: dict[str, Any]) -> str:
    """Name a workload and load point shortly: `text · c8`."""
    return f"{row['workload']} · {row['load_point']}"


def is_one_line(text: str) -> bool:
    """Tell whether text can stand in a line: nothing in it ends one or steers a terminal."""
    return all(c.isprintable() or unicodedata.category(c) == "Zs" for c in text)


def shell(command: list[str]) -> str:
    """Quote an argument list for a POSIX shell, on one line.

    A line break, as chat templates have, is written as POSIX.1-2024 says (2.2.4, dollar-single-
    quotes), which bash, zsh and ksh know.

    Raises:
        ValueError: a word cannot stand in a line.
    """
    if other := next((word for word in command if not is_one_line(word.replace("\n", ""))), None):
        raise ValueError(f"{json.dumps(other)[:80]} has a control character")
    return " ".join(_escaped(word) if "\n" in word else shlex.quote(word) for word in command)


def _escaped(word: str) -> str:
    inner = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{inner}'"


_ACTIVE = re.compile(r"""[`$;&|<>\\!"'{}\[\]*?~^#]|=(?=\()""")


def comment(text: str) -> str:
    """Write text that others may have written as a comment that runs nothing, wherever pasted.

    An interactive zsh takes `#` for a command, and reads on.
    """
    line = "".join(c if is_one_line(c) else "?" for c in text)
    return f"# {_ACTIVE.sub('?', line)}"


def places(of: Iterable[tuple[str, str]]) -> str:
    """Name load points, each workload once: `text · c1, c4 and c8`."""
    by_workload: dict[str, dict[str, None]] = {}
    for workload, load_point in of:
        by_workload.setdefault(workload, {})[load_point] = None
    return "; ".join(f"{workload} · {listed(points)}" for workload, points in by_workload.items())


def inside(title: str) -> str:
    """Write a title as it stands inside a sentence: `Output throughput`, but `TTFT p50`."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def relabelled(text: str, labels: Mapping[str, str]) -> str:
    """Put short names in the place of the names of candidates."""
    longest_first = sorted((n for n in labels if labels[n] != n), key=len, reverse=True)
    if not longest_first:
        return text
    names = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<![\w.-])(?:{names})(?![\w-])", lambda m: labels[m[0]], text)


def plural(count: int, noun: str) -> str:
    """Count a noun: 1 repeat, 2 repeats."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def first_sentence(reason: str) -> str:
    """Return a reason up to its first full stop, where another place tells it whole."""
    return re.split(r"\.(?:\s+(?=[A-Z])|$)", reason, maxsplit=1)[0]


def text_of(value: Any) -> str:
    """Return the text of a column; empty where it has none."""
    return value if isinstance(value, str) else ""


def valued(row: dict[str, Any], metric: str, baseline: str) -> str:
    """Write a value of the comparison with its ratio to the baseline: 4.95 (0.84 times)."""
    of = None if row["variant"] == baseline else row[f"{metric}_ratio"]
    return valued_beside(row, metric, of)


def valued_beside(row: dict[str, Any], metric: str, of: Any) -> str:
    """Write a value with a ratio, where it is known and not 1: 4.95 (0.84 times)."""
    value, of = number(row[metric]), known(of)
    return value if of is None or of == 1 else f"{value} ({ratio(of)})"


def listed(words: Iterable[str]) -> str:
    """Join words as a sentence does: a, b and c."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def state(table: pd.DataFrame, unanswered: int = 0, searches: int = 0) -> str:
    """Count the measurements that are ok, failed, invalid and pending, in one sentence.

    A search for a capacity whose measurements are ok may have no answer: that is told, too.
    """
    total, ok = len(table), int((table["status"] == "ok").sum())
    have = "has" if unanswered == 1 else "have"
    of = f"; {unanswered:,} of {searches:,} searches {have} no answer" if unanswered else ""
    if ok == total:
        every = "The one measurement is" if total == 1 else f"All {total:,} measurements are"
        return f"{every} ok{of}."
    others = ("failed", "invalid", PENDING)
    counts = {status: int((table["status"] == status).sum()) for status in others}
    rest = listed(f"{count:,} {status}" for status, count in counts.items() if count)
    verb = "is" if ok == 1 else "are"
    return f"{ok:,} of {plural(total, 'measurement')} {verb} ok, {rest}{of}."
