"""Session records of servers that told what they chose."""

from typing import Any

from servetune.records.sessions import Launch, SessionRecord


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
        launches=[
            Launch(
                **{
                    **{"launch": number, "status": "ok", "command": [], "environment": {}},
                    **{"started_at": "2026-11-01T00:00:00+00:00", **told},
                }
            )
            for number, told in enumerate(launches, 1)
        ],
    )


def by_id(*sessions: SessionRecord) -> dict[str, SessionRecord]:
    """The sessions as tables have them."""
    return {made.session: made for made in sessions}
