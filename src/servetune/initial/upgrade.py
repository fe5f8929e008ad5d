"""A project's folder, brought to the servetune that is installed."""

from collections.abc import Iterator
from pathlib import Path

from servetune.errors import RUN, UserError
from servetune.files import write_text
from servetune.initial.version import VERSION, changes, write_version
from servetune.plan.make import plan_to_measure, read_params
from servetune.plan.planned import Plan
from servetune.records.paths import recorded
from servetune.shipped import SHIPPED


def upgrade_project(root: Path, dry_run: bool) -> Iterator[str]:
    """Write what the installed servetune writes other than the one before, once it is said.

    Raises:
        UserError: no folder that `init` made.
    """
    found = changes(root)
    if not found:
        yield f"{VERSION}: is of the installed servetune; nothing to change"
        return
    yield from found
    yield _left_to_measure(root)
    if dry_run:
        return
    write_text(
        root / "studies" / "study.schema.json",
        (SHIPPED / "studies" / "study.schema.json").read_text(),
    )
    write_version(root)
    yield f"written: {VERSION}, studies/study.schema.json; run: {RUN}"


def _left_to_measure(root: Path) -> str:
    """Say what the ids are by the installed version: of what was recorded by another, or not."""
    try:
        plan: Plan = plan_to_measure(read_params(root), root)
    except UserError as error:
        return f"the study, by the installed servetune: {error}"
    known = recorded(plan.study, root)
    ids = {measurement.id for measurement in plan.measurements}
    return (
        f"{plan.study}: {len(ids & set(known))} of {len(ids)} measurements are recorded"
        " under the ids of the installed servetune; a run measures the others"
    )
