"""Session records of servers that told what they chose."""

from typing import Any

from servetune.records.sessions import Launch, SessionRecord


def launch(**told: Any) -> Launch:
    """A launch that told nothing, changed."""
    nothing = {"launch": 1, "status": "ok", "command": [], "environment": {}}
    return Launch(**{**nothing, "started_at": "2026-11-01T00:00:00+00:00", **told})


def session(variant: str, *launches: dict[str, Any], repeat: int = 1) -> SessionRecord:
    """A session with these launches, each changed from one that told nothing."""
    return SessionRecord(
        session=f"{variant}-r{repeat}",
        study="study",
        variant=variant,
        repeat=repeat,
        hardware="cpu",
        engine="vllm-cpu",
        measurements=[],
        launches=[launch(**{"launch": place, **told}) for place, told in enumerate(launches, 1)],
    )


def by_id(*sessions: SessionRecord) -> dict[str, SessionRecord]:
    """The sessions as tables have them."""
    return {made.session: made for made in sessions}
