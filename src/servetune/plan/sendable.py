"""What of a study is still to measure, and its load generator cannot send.

What is recorded is never refused: it may be from a time when its generator could.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from servetune.errors import UserError
from servetune.plan.contents import Content
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.records.paths import record_path, search_path
from servetune.study.generators import GENERATORS, OWN, Ask

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
    return () if session.results else (*session.measurements, *session.searches)


def _path(session: Session, owed: Measurement | PlannedSearch, root: Path) -> Path:
    find = record_path if isinstance(owed, Measurement) else search_path
    return find(session.study, owed.id, root)


def _check(study: str, owed: Measurement | PlannedSearch, content_of: ContentOf) -> None:
    name = owed.load.generator
    if name != OWN and (what := unsendable(owed, content_of(owed.load.dataset))):
        raise UserError(
            f"studies/{study}.yaml: workloads.{owed.workload}.generator: {name} cannot {what};"
            f" leave generator out: {OWN} can"
        )


def unsendable(owed: Measurement | PlannedSearch, content: Content) -> str | None:
    """Say what of a load its generator cannot do, by what its dataset holds; None: it can all."""
    lacks = GENERATORS[owed.load.generator].lacks
    return next((_WORDS[ask] for ask in _asks(owed, content) if ask in lacks), None)


def _asks(owed: Measurement | PlannedSearch, content: Content) -> list[Ask]:
    """Return what a load asks of its generator, in the order of `_WORDS`."""
    if isinstance(owed, PlannedSearch):
        return ["search"]
    load = owed.load
    is_asked: dict[Ask, bool] = {
        "pooling": load.is_pooled,
        "itl": "itl" in owed.limits_ms,
        "classes": bool(load.classes),
        "delays": load.turn_delay_s != 0,
        "recorded answers": load.history == "recorded",
        "graphs": content.has_graphs,
        "turns": content.has_turns,
        "token ids": content.has_token_ids,
        "trace": load.arrivals == "trace",
        "duration": load.duration_s is not None,
        "ramp-up": bool(load.ramp_up_s),
        "ramp-up of clients": bool(load.ramp_up_s) and not load.is_open,
        "burst": load.burst is not None,
        "rate with concurrency": load.is_open and load.concurrency is not None,
    }
    return [ask for ask, asked in is_asked.items() if asked]


_WORDS: dict[Ask, str] = {
    "search": "end a probe when it is decided, as a search for the capacity needs",
    "pooling": "ask for embeddings or a rerank",
    "itl": "tell the ITL that the SLO limits",
    "classes": "send classes of requests",
    "delays": "send delays between turns",
    "recorded answers": "send recorded answers as the history",
    "graphs": "send turns that name what they wait for, or whole chats",
    "turns": "send conversations",
    "token ids": "send token ids",
    "trace": "send a trace",
    "duration": "send a duration_s",
    "ramp-up": "send a ramp_up_s",
    "ramp-up of clients": "send a ramp_up_s",
    "burst": "send a burst",
    "rate with concurrency": "send a concurrency of an open loop",
}
