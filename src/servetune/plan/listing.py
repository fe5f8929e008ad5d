"""A plan with its times, as lines for a person."""

from collections.abc import Iterator

from servetune.plan.estimate import Estimate
from servetune.progress import about, counted


def lines(estimate: Estimate) -> Iterator[str]:
    """List what a run would measure, session by session, and what that takes together."""
    yield f"{estimate.study} on {estimate.hardware}: {estimate.question}"
    yield from (f"  {note}" for note in estimate.notes)
    for session in estimate.sessions:
        takes = f", {about(session.seconds)}" if session.owed else ""
        yield f"  session {session.id} ({session.variant}{takes})"
        for item in session.items:
            state = "measured" if item.is_measured else f"to measure, {about(item.seconds)}"
            yield f"    {item.name}: {state}"
    yield total(estimate)
    yield from estimate.warnings


def total(estimate: Estimate) -> str:
    """Say in a line what is still to run, and what that takes."""
    left = estimate.to_measure
    if not left.launches:
        all_there = "Nothing to run: all of it is there."
        return "The next round is still to be chosen." if estimate.has_more else all_there
    counts = {
        "launch": left.launches,
        "load point": left.load_points,
        "search": left.searches,
        "quality": left.quality,
    }
    costs = [
        *([f"about {left.gpu_minutes:,.0f} GPU minutes"] if left.gpu_minutes else []),
        *([] if left.cost_usd is None else [f"about {left.cost_usd:,.2f} USD"]),
    ]
    sure = 1 - left.assumed_seconds / left.seconds
    guess = "" if sure > 0.9 else "; a guess, as little like it was recorded on such hardware"
    takes = ", ".join([about(left.seconds), *costs])
    return f"To run: {', '.join(counted(counts))}; {takes}{guess}"
