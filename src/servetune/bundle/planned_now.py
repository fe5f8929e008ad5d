"""Whether what came back is what the present plan asks for, and what to try where it is not."""

from collections.abc import Iterator
from pathlib import Path

from servetune.bundle.results import Taken
from servetune.errors import RUN, UserError
from servetune.plan.identity import digest_of
from servetune.plan.make import make_plan, read_params

SHORT = 12
"""So many digits of a commit name it."""


def beside_plan(taken: Taken, root: Path) -> Iterator[str]:
    """Yield lines on what of an archive the plan of its study lacks by now, and how to see it."""
    study = taken.study
    try:
        params = read_params(root)
        plan = make_plan({**params, "study": study}, root)
    except UserError as error:
        yield f"whether {study} still asks for these is not known: {error}"
        return
    # A digest alone identifies: a variant may have another name by now.
    planned = {digest_of(id) for session in plan.sessions for id in session.owed}
    count, total = sum(digest_of(id) in planned for id in taken.owed), len(taken.owed)
    if count < total:
        now = f"in the plan of {study} now, so the report"
        told = f"none of these {total} load points is {now} shows none"
        if count:
            are = "are" if count > 1 else "is"
            told = f"{count} of these {total} load points {are} {now} leaves the others out"
        elif total == 1:
            told = f"the load point is not {now} does not show it"
        declared = f"params.yaml studies/{study}.yaml"
        diff = f"git diff {taken.commit[:SHORT]} -- {declared}" if taken.commit else ""
        yield (
            f"{told}: the study, params.yaml or what they name changed since the export, or it had"
            f" --config{f'; compare: {diff}' if diff else ''}"
        )
    if (chosen := params.get("study")) != study:
        yield f"params.yaml names study {chosen}; for these: {RUN} --config study={study}"
