"""What launches beside a tuning's own recorded of its candidates: of this study, or of others.

They are of another day and maybe another host, so that they tell what to try, and prove nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from servetune.errors import UserError
from servetune.plan.identity import digest, load_content
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan, Session
from servetune.plan.rounds import launch_each
from servetune.plan.sessions import Declared, serving_of
from servetune.records.paths import session_path
from servetune.records.sessions import SessionRecord, read_session
from servetune.records.trials import Trial, TrialResult
from servetune.study.base import Frozen
from servetune.tables.trial_results import found_by


class PriorResult(Frozen):
    """A launch of a candidate that is not the tuning's own, and what identifies its host."""

    host: str
    seen: TrialResult


def prior_results(declared: Declared, plan: Plan, root: Path) -> list[PriorResult]:
    """Return what others found of a tuning's candidates, served alike under the load that decides.

    Raises:
        UserError: a record is damaged.
    """
    if (tuning := plan.tuning) is None:
        return []
    [base] = launch_each(declared, tuning.candidates[:1])
    served = defaultdict(list)
    for other in _others(plan, root):
        if owing := _with_load_of(base, other):
            served[_serving(other)].append(owing)
    found = []
    for session in launch_each(declared, tuning.candidates) if served else []:
        for other in served[_serving(session)]:
            record = read_session(session_path(other.study, other.id, root))
            trial = other.model_copy(update={"trial": Trial(session.variant, "screen")})
            each = found_by(tuning, trial, record, plan.price_usd_per_hour, root)
            if each.failure != "invalid":
                found.append(PriorResult(host=_host(record), seen=each))
    return found


def applicable(
    elsewhere: Iterable[PriorResult], sessions: Sequence[Session], root: Path
) -> list[TrialResult]:
    """Return what was found on hosts like those of a tuning's sessions, of what these did not try.

    Raises:
        UserError: a record is damaged.
    """
    own = [session_path(session.study, session.id, root) for session in sessions]
    hosts = {_host(read_session(path)) for path in own if path.is_file()}
    tried = {session.variant for session in sessions}
    here = (each.seen for each in elsewhere if each.host in hosts)
    return [seen for seen in here if seen.trial.candidate not in tried]


def _others(plan: Plan, root: Path) -> Iterator[Session]:
    """Yield the sessions on such hardware that were recorded, but for the tuning's own."""
    studies = sorted(folder.parent.name for folder in (root / "results").glob("*/sessions"))
    sessions = [session for session in plan.sessions if session.trial is None]
    for name in studies:
        # A study that cannot be planned here tells nothing.
        with suppress(UserError):
            sessions += make_plan({"study": name}, root).sessions if name != plan.study else []
    for session in sessions:
        is_recorded = session_path(session.study, session.id, root).is_file()
        if is_recorded and session.hardware == plan.hardware:
            yield session


def _with_load_of(base: Session, other: Session) -> Session | None:
    """Return a session with only what is asked as of the base; None if that is not asked."""
    if base.searches:
        ours = base.searches[0]
        searches = [
            search
            for search in other.searches
            if load_content(search.load) == load_content(ours.load)
            and search.settings.over == ours.settings.over
            and ours.settings.slo.items() <= search.settings.slo.items()
        ]
        return other.model_copy(update={"searches": searches[:1]}) if searches else None
    point = base.measurements[0]
    points = [
        measurement.model_copy(update={"limits_ms": point.limits_ms})
        for measurement in other.measurements
        if load_content(measurement.load) == load_content(point.load)
    ]
    changes = {"searches": [], "measurements": points[:1]}
    return other.model_copy(update=changes) if points else None


def _host(record: SessionRecord) -> str:
    """Name what a session was on by its processors and GPUs; of old records all are one host."""
    told = record.launches[-1].host if record.launches else {}
    gpus = [gpu.get("name") for gpu in told.get("gpus") or []]
    return digest([told.get("cpu"), told.get("cores"), gpus])


def _serving(session: Session) -> str:
    """Identify how a session serves, whichever launch it is."""
    return digest(serving_of(session).model_dump(exclude={"repeat"}))
