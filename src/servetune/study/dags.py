"""AIPerf's `dag_jsonl`: sessions whose turns begin other sessions, and wait for some of them.

A fork goes on with the history of the turn that begins it, a spawn begins one of its own.
"""

from collections import defaultdict
from typing import Any

from pydantic import Field

from servetune.errors import UserError
from servetune.study.base import Tokens
from servetune.study.lines import Place
from servetune.study.turns import Message, SomeTime, Strict, Text, turn_at

_MOST_TURNS, _DEEPEST = 10_000, 100


class _Fork(Strict):
    child: str
    background: bool = False


class _Spawn(Strict):
    children: list[str] = Field(min_length=1)
    join_at: int | None = None


class _Turn(Strict):
    messages: list[Message] = Field(min_length=1)
    model: str | None = None
    max_tokens: Tokens | None = None
    forks: list[str | _Fork] = []
    spawns: list[str | _Spawn] = []
    delay: SomeTime = 0.0

    @property
    def forked(self) -> list[str]:
        return [fork if isinstance(fork, str) else fork.child for fork in self.forks]

    @property
    def spawned(self) -> list[_Spawn]:
        return [_Spawn(children=[one]) if isinstance(one, str) else one for one in self.spawns]


class Dag(Strict):
    """A session; its turns name others, which begin once they are answered."""

    session_id: Text
    turns: list[_Turn] = Field(min_length=1)

    @property
    def begun(self) -> set[str]:
        """The sessions that it begins."""
        spawns = [spawn for turn in self.turns for spawn in turn.spawned]
        names = [name for turn in self.turns for name in turn.forked]
        return {*names, *(c for spawn in spawns for c in spawn.children)}


Sessions = dict[str, tuple[Place, Dag]]


def trees(sessions: Sessions) -> dict[int, dict[str, Any]]:
    """Return a conversation for each session that no other begins, by the number of its record.

    Raises:
        UserError: a session is not there, or begun by itself; turns name different models, or a
            later one has other messages than the user's.
    """
    begun = set[str]().union(*(dag.begun for _, dag in sessions.values()))
    rows, unreached = {}, set(sessions)
    for name, (place, _) in sessions.items():
        if name not in begun:
            tree = _Tree(sessions)
            tree.grow(place, "session_id", name, [], has_history=False)
            unreached -= tree.reached
            rows[place.number] = {"turns": tree.turns}
    if unreached:
        place, dag = next(sessions[name] for name in sessions if name in unreached)
        raise place.wrong("a session that does not begin itself", dag.session_id, "session_id")
    models = {turn.model: at for at, dag in sessions.values() for turn in dag.turns if turn.model}
    if len(models) > 1:
        (first, _), *_, (model, place) = models.items()
        expected = f"{first}, as before, since one model is served"
        raise place.wrong(expected, model, "turns.model")
    return rows


class _Tree:
    """The turns of one conversation, each after all that it waits for."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._open: list[str] = []
        self.turns: list[dict[str, Any]] = []
        self.reached: set[str] = set()

    def grow(self, by: Place, field: str, name: str, after: list[int], has_history: bool) -> int:
        """Add a session and those that it begins; returns the place of its last turn."""
        if name not in self._sessions:
            raise by.wrong("a session_id of the file", name, field)
        if name in self._open or len(self._open) == _DEEPEST:
            raise by.wrong(f"no cycle, and a depth of at most {_DEEPEST}", name, field)
        self._open.append(name)
        self.reached.add(name)
        place, dag = self._sessions[name]
        joins: defaultdict[int, list[int]] = defaultdict(list)
        for at, turn in enumerate(dag.turns):
            field = f"turns.{at}"
            self._add(place, f"{field}.messages", turn, [*after, *joins[at]], has_history)
            after, has_history = [len(self.turns) - 1], True
            for child in turn.forked:
                self.grow(place, f"{field}.forks", child, after, has_history=True)
            for spawn in turn.spawned:
                join = at + 1 if spawn.join_at is None else spawn.join_at
                if not at < join < len(dag.turns) + (spawn.join_at is None):
                    expected = f"a later turn of the session, to {len(dag.turns) - 1}"
                    raise place.wrong(expected, join, f"{field}.spawns.join_at")
                joins[join] += [
                    self.grow(place, f"{field}.spawns", child, after, has_history=False)
                    for child in spawn.children
                ]
        self._open.pop()
        return after[0]

    def _add(
        self, place: Place, field: str, turn: _Turn, after: list[int], has_history: bool
    ) -> None:
        at = len(self.turns)
        if at == _MOST_TURNS:
            raise UserError(f"{place}: more than {_MOST_TURNS:,} turns in one conversation")
        messages = [message.as_given() for message in turn.messages]
        more = {"output_tokens": turn.max_tokens, "delay_s": turn.delay / 1000}
        self.turns.append(turn_at(place, field, at, messages, after, has_history, **more))
