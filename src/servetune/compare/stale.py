"""Whether the committed results are those of params.yaml, its study and the records."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from servetune.analysis.wording import listed, plural
from servetune.errors import RUN, UserError
from servetune.files import write_json, write_table
from servetune.plan.planned import Plan
from servetune.records.paths import recorded
from servetune.report.headline import headline
from servetune.report.reading import read_partial
from servetune.tables.records import read_records
from servetune.tables.write import METRICS, all_metrics, make_tables, reviewed_tables

MOST_NAMED = 5


def stale(plan: Plan, root: Path, has_report: bool) -> list[str]:
    """Say what is not as it would be after a run, a line each; nothing if all is.

    `has_report`: the reports/ are of this plan. Nothing is measured for it, and nothing but what
    Git holds is read.
    """
    lines = _stale(plan, root, has_report)
    return [f"{line}; run: {RUN}, and commit results/ and reports/" for line in lines]


def _stale(plan: Plan, root: Path, has_report: bool) -> Iterator[str]:
    owed = dict.fromkeys(id for session in plan.sessions for id in session.owed)
    there = recorded(plan.study, root)
    if missing := [id for id in owed if id not in there]:
        more = len(missing) - MOST_NAMED
        named = [*missing[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
        what = plural(len(missing), "measurement")
        lack = "has" if len(missing) == 1 else "have"
        yield f"results/{plan.study}: {what} of params.yaml {lack} no record: {listed(named)}"
        return
    results = root / "results" / plan.study
    try:
        made = make_tables(plan, root, read_records(plan, root))
    except UserError as error:
        yield str(error)
        return
    with TemporaryDirectory() as folder:
        again = Path(folder)
        for name, table in reviewed_tables(plan, made).items():
            write_table(again / name, table)
        write_json(again / METRICS, all_metrics(made))
        for fresh in sorted(again.iterdir()):
            kept = results / fresh.name
            if not kept.is_file() or kept.read_bytes() != fresh.read_bytes():
                yield f"results/{plan.study}/{fresh.name} is not what its records make"
        summary = root / "reports/summary.json"
        if has_report and summary.is_file():
            write_json(again / summary.name, headline(read_partial(plan, root)))
            if summary.read_bytes() != (again / summary.name).read_bytes():
                yield "reports/summary.json is not what its records make"
