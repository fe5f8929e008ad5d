"""Whether the committed results are those of params.yaml, its study and the records."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from servetune.analysis.wording import listed, plural
from servetune.errors import RUN, UserError
from servetune.files import write_table
from servetune.plan.planned import Plan
from servetune.records.paths import recorded
from servetune.tables.records import read_records
from servetune.tables.write import make_tables, reviewed_tables

MOST_NAMED = 5


def stale(plan: Plan, root: Path) -> list[str]:
    """Say what is not as it would be after a run, a line each; nothing if all is.

    Nothing is measured for it, and nothing but what Git holds is read.
    """
    return [f"{line}; run: {RUN}, and commit results/" for line in _stale(plan, root)]


def _stale(plan: Plan, root: Path) -> Iterator[str]:
    owed = dict.fromkeys(id for session in plan.sessions for id in session.owed)
    there = recorded(plan.study, root)
    if missing := [id for id in owed if id not in there]:
        more = len(missing) - MOST_NAMED
        named = [*missing[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
        what = plural(len(missing), "measurement")
        yield f"results/{plan.study}: {what} of params.yaml has no record: {listed(named)}"
        return
    results = root / "results" / plan.study
    try:
        made = reviewed_tables(plan, make_tables(plan, root, read_records(plan, root)))
    except UserError as error:
        yield str(error)
        return
    with TemporaryDirectory() as folder:
        for name, table in made.items():
            fresh, kept = Path(folder) / name, results / name
            write_table(fresh, table)
            if not kept.is_file() or kept.read_bytes() != fresh.read_bytes():
                yield f"results/{plan.study}/{name} is not what its records make"
