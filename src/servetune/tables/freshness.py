"""Is an output still what its inputs make? Decided by content, never by times of change.

A clone, a checkout and a DVC workspace give files new times in no order. So each aggregating
step leaves a digest of all that it was made from beside its outputs, and the workflow compares.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servetune.errors import RUN, UserError, printable
from servetune.files import read_model, write_text
from servetune.plan.planned import Plan
from servetune.plan.rounds import follows_digest, read_rounds
from servetune.records.excerpts import Excerpt
from servetune.records.paths import (
    quality_path,
    record_path,
    search_path,
    session_path,
    timeline_path,
)
from servetune.records.searches import read_search
from servetune.study.published import published_files

STAMP = "tables.sha256"

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^\s*(?:from|import) (servetune[\w.]*)(?: import (\([^)]*\)|.*))?", re.M)
_BY_NAME = re.compile(r'dialect="(servetune[\w.]+)"')
"""How a row of `study.families` names the module that is imported for it."""


def tables_digest(plan: Plan, root: Path) -> str:
    """Digest of what the tables are made from: the plan, its records, and the code."""
    records = _records(plan, root)
    folder = timeline_path(plan.study, "", 0, root).parent
    over_time = (file for id in _sessions(records) for file in sorted(folder.glob(f"{id}-*.json")))
    return _digest(plan.model_dump_json(), [*records, *over_time, *_code("tables")])


def check_tables(plan: Plan, root: Path) -> None:
    """Refuse tables that are not there, or of other declarations, records or code.

    Raises:
        UserError: what to run.
    """
    stamp = root / "results" / plan.study / STAMP
    if not stands(stamp, tables_digest(plan, root)):
        raise UserError(
            f"{stamp.parent}: the tables are not those of params.yaml and its records; run: {RUN}"
        )


def forget_tables(study: str, root: Path) -> None:
    """Forget tables of other rounds: Snakemake would take them for a reason to stop."""
    (root / "results" / study / STAMP).unlink(missing_ok=True)


def report_digest(plan: Plan, root: Path) -> str:
    """Digest of what the report is made from: tables, their sessions, published numbers, code."""
    sessions = (session_path(plan.study, id, root) for id in _sessions(_records(plan, root)))
    beside = published_files(plan.published, root) if plan.published else ()
    return _digest(tables_digest(plan, root), [*sessions, *beside, *_code("analysis", "report")])


def partial_digest(plan: Plan, root: Path) -> str:
    """Digest of what a partial report is made from: never that of a whole one."""
    return _digest(f"partial {report_digest(plan, root)}", [])


@dataclass(frozen=True)
class Wanted:
    """What a step would be given now: a file that holds its digest, and whether it had it."""

    path: str
    is_current: bool


def stands(stamp: Path, digest: str) -> bool:
    """Tell whether a step's outputs are of what this digest is of."""
    return _lines(stamp)[:1] == [digest]


def wanted(stamp: str, digest: str) -> Wanted:
    """Compare a step's digest with the stamp that it left.

    What is wanted is written only when the step has to run: newer than its outputs and of other
    content, it makes Snakemake run it with or without a memory of earlier runs.
    """
    path = Path(".servetune", f"{Path(stamp).name}.wanted")
    lines = _lines(Path(stamp))
    had = lines[0] if lines else "nothing"
    is_current = had == digest
    if not is_current or not path.is_file():
        # Named by what it replaces too: records that were forgotten all together leave the digest
        # of the very first run, whose content Snakemake remembers and would take for unchanged.
        write_stamp(path, f"{digest} in place of {had}")
    return Wanted(str(path), is_current)


def round_due(plan: Plan, root: Path) -> tuple[int, str, str]:
    """Return the number of the first round to choose, and what it follows from.

    A round that is there follows from other records: the last value is what from, else empty.
    """
    number = 1
    for record in read_rounds(plan.study, plan.growing.declared, root) if plan.growing else []:
        follows = follows_digest(plan.trials_before(number), root)
        if record.follows != follows:
            return number, follows, record.follows
        number += 1
    return number, follows_digest(plan.trials_before(number), root), ""


def wanted_round(plan: Plan, root: Path) -> tuple[int, str]:
    """Return the round to choose, and a file of what it follows from, as `wanted`."""
    number, follows, had = round_due(plan, root)
    path = Path(".servetune", "round.wanted")
    if plan.growing:
        named = f"{plan.growing.declared} {number} {follows} in place of {had or 'nothing'}"
        write_stamp(root / path, named)
    return number, str(path)


def write_stamp(stamp: Path, digest: str, notes: Iterable[str] = ()) -> None:
    """Leave the digest of what a step was given, and notes on what it made, a line each."""
    write_text(stamp, "".join(f"{line}\n" for line in (digest, *notes)))


def notes_of(stamp: Path) -> list[str]:
    """Return the notes that a step left with its stamp."""
    return _lines(stamp)[1:]


def _lines(stamp: Path) -> list[str]:
    text = stamp.read_text(encoding="utf-8", errors="replace") if stamp.is_file() else ""
    return [printable(line) for line in text.split("\n")[:-1]]


def _records(plan: Plan, root: Path) -> list[Path]:
    searches = [search_path(plan.study, search.id, root) for search in plan.searches]
    probes = [id for path in searches if path.is_file() for id in read_search(path).measurements]
    ids = [*(m.id for m in plan.measurements), *probes]
    qualities = [quality_path(plan.study, quality.id, root) for quality in plan.qualities]
    return [*(record_path(plan.study, id, root) for id in ids), *searches, *qualities]


def _sessions(records: list[Path]) -> list[str]:
    """Name the sessions of records: others in the same folder are no reason to render again."""
    here = (path for path in records if path.is_file())
    return sorted({read_model(path, Excerpt).session for path in here})


def _code(*packages: str) -> list[Path]:
    """List the files of packages, templates included, and of all modules that they import.

    Imports are read, not run: to run them takes a hundred times as long.
    """
    files = [path for path in _PACKAGE.rglob("*") if path.suffix != ".pyc" and path.is_file()]
    inside = {path for path in files if path.relative_to(_PACKAGE).parts[0] in packages}
    modules = {_module(path): path for path in files if path.suffix == ".py"}
    ahead = [name for name, path in modules.items() if path in inside]
    found: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name in modules and name not in found:
            found.add(name)
            ahead += _imported(name, modules[name].read_text(encoding="utf-8"))
    return sorted(inside | {modules[name] for name in found})


def _module(file: Path) -> str:
    parts = file.relative_to(_PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def _imported(name: str, source: str) -> list[str]:
    """List what a module may import: the packages above it, modules, and names in modules."""
    imported = [name.rpartition(".")[0]]
    imported += _BY_NAME.findall(source)
    for module, names in _IMPORT.findall(source):
        imported += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]
    return imported


def _digest(text: str, files: Iterable[Path]) -> str:
    total = hashlib.sha256(text.encode())
    for file in files:
        total.update(file.name.encode())
        if file.is_file():
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()
