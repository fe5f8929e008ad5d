"""What of a study is still to measure, and its load generator cannot send.

What is recorded is never refused: it may be from a time when its generator could.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from servetune.errors import UserError
from servetune.load.generator import OWN
from servetune.load.registry import GENERATORS
from servetune.plan.contents import Content
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.records.loads import PlannedTraffic
from servetune.records.paths import record_path, search_path

ContentOf = Callable[[str], Content]
"""What a dataset holds, by its id."""


def check_study(sessions: list[Session], content_of: ContentOf, root: Path) -> None:
    """Check each workload of a study of which nothing is recorded.

    Raises:
        UserError: the first that its generator cannot send, and what can.
    """
    owing = [(session, owed) for session in sessions for owed in _loads(session)]
    known = {owed.workload for session, owed in owing if _path(session, owed, root).is_file()}
    for session, owed in owing:
        if owed.workload not in known:
            _check(session.study, owed, content_of)


def check_session(session: Session, content_of: ContentOf, root: Path) -> None:
    """Check what a session has still to measure; raises UserError as `check_study` does."""
    for owed in _loads(session):
        if not _path(session, owed, root).is_file():
            _check(session.study, owed, content_of)


def _loads(session: Session) -> Iterable[Measurement | PlannedSearch]:
    return (*session.measurements, *session.searches)


def _path(session: Session, owed: Measurement | PlannedSearch, root: Path) -> Path:
    find = record_path if isinstance(owed, Measurement) else search_path
    return find(session.study, owed.id, root)


def _check(study: str, owed: Measurement | PlannedSearch, content_of: ContentOf) -> None:
    name = owed.load.generator
    if what := _unsendable(owed, content_of):
        raise UserError(
            f"studies/{study}.yaml: workloads.{owed.workload}.generator: {name} cannot {what};"
            f" leave generator out: {OWN} can"
        )


def _unsendable(owed: Measurement | PlannedSearch, content_of: ContentOf) -> str | None:
    generator = GENERATORS[owed.load.generator]
    if generator.name == OWN:
        return None
    if isinstance(owed, PlannedSearch):
        return "end a probe when it is decided, as a search for the capacity needs"
    if "itl" in owed.limits_ms and not generator.has_itl:
        return "tell the ITL that the SLO limits"
    if owed.load.classes:
        return "send classes of requests"
    content = content_of(owed.load.dataset)
    what = _of_our_own(owed.load, content) or generator.refuses(
        owed.load, has_turns=content.has_turns, has_token_ids=content.has_token_ids
    )
    return f"send {what}" if what else None


def _of_our_own(load: PlannedTraffic, content: Content) -> str | None:
    """Return what of a load's turns our own client alone sends; None of the rest."""
    if load.turn_delay_s != 0:
        return "delays between turns"
    if load.history == "recorded":
        return "recorded answers as the history"
    return "turns that name what they wait for, or whole chats" if content.has_graphs else None
