"""The state of a study as lines and as a table."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from servetune.errors import RUN
from servetune.progress import about
from servetune.running import Running, since, this_node
from servetune.status.state import SessionState, State

STYLES = {
    **{"done": "green", "failed": "red", "running": "bold cyan", "stopped": "yellow"},
    "waiting": "dim",
}


def render_state(state: State) -> RenderableType:
    """Make the table of all sessions, for `rich`."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for head in ("session", "status"):
        table.add_column(head, overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("now", overflow="fold")
    for session in state.sessions:
        table.add_row(
            Text(name_of(session, state)),
            Text(session.status, style=STYLES[session.status]),
            f"{session.measured} of {session.owed}",
            Text(_now(session)),
        )
    steps = [Text(f"running: {step.step} {step.name}, {doing(step)}") for step in state.steps]
    return Group(
        Text(f"{state.study}: {summary(state)}"),
        table,
        *map(Text, state.notes),
        *steps,
        *map(Text, _advice(state)),
    )


def render_live(state: State) -> RenderableType:
    """Make what stands below the lines of a run: one row a step that runs, then the whole."""
    table = Table.grid(padding=(0, 2))
    for step in state.steps:
        table.add_row(Text(step.step, style="cyan"), Text(step.name), Text(doing(step)))
    for session in state.sessions:
        if session.running:
            place = f"session {session.position} of {len(state.sessions)}"
            name = Text(name_of(session, state))
            table.add_row(Text(place, style="cyan"), name, Text(doing(session.running)))
    # A terminal writes ^C where this ends: on an empty line it moves none of those to be cleared.
    return Group(table, Text(summary(state), style="dim"), Text())


def summary(state: State) -> str:
    """Say how much is measured, what went wrong, and what is left, on one line."""
    done = sum(session.status in ("done", "failed") for session in state.sessions)
    parts = [
        f"{done} of {len(state.sessions)} sessions done, {state.measured} of {state.owed} measured",
        *counted_states(state),
    ]
    if state.left_s and state.is_running:
        parts.append(f"{about(state.left_s)} left")
    return ", ".join(parts)


def name_of(session: SessionState, state: State) -> str:
    """Name a session by its variant, and by its repeat where there are several."""
    is_only = all(other.repeat == 1 for other in state.sessions)
    return session.variant if is_only else f"{session.variant} r{session.repeat}"


def doing(step: Running) -> str:
    """Say what a step does: text c8, load point 3 of 5, 40 of 64 requests, 812 tok/s, 12 s."""
    parts = [step.doing or step.name]
    if step.position:
        parts.append(
            f"load point {step.position} of {step.of}" if step.of else f"load {step.position}"
        )
    if step.requests:
        what = "answers" if step.doing == "quality" else "requests"
        parts.append(f"{step.requests_done or 0} of {step.requests} {what}")
    if step.tokens_per_s:
        parts.append(f"{step.tokens_per_s:,.0f} tok/s")
    parts.append(str(timedelta(seconds=int(since(step.doing_since)))))
    return ", ".join([*parts, *([f"on {step.node}"] if step.node != this_node() else [])])


def _now(session: SessionState) -> str:
    if session.running:
        return doing(session.running)
    parts = counted_states(session)
    if session.left_s and session.status in ("waiting", "stopped"):
        parts.append(about(session.left_s))
    return ", ".join(parts)


def counted_states(of: SessionState | State) -> list[str]:
    """Count what went wrong in a session, or in all."""
    counts = {"failed": of.failed, "invalid": of.invalid}
    return [f"{count} {status}" for status, count in counts.items() if count]


def _advice(state: State) -> Iterator[str]:
    """Say what waits in DVC's queue, and what to do next where nothing runs."""
    if state.queued:
        names = ", ".join(state.queued)
        yield f"In DVC's queue: {names}. To run them: uv run dvc queue start"
    if state.is_running:
        began = [f"Running since {_clock(state.began_at)}."] if state.began_at else []
        ends = [f"It should end at about {_clock(state.ends_at)}."] if state.ends_at else []
        yield " ".join(began + ends)
        return
    if state.measured < state.owed:
        yield f"Nothing runs. To go on, {about(state.left_s)}:"
        yield f"  {RUN}"
    elif state.has_more:
        yield "Nothing runs, and the next round is still to be chosen. To go on:"
        yield f"  {RUN}"
    if state.measured and state.measured < state.owed:
        yield "A report of what there is: uv run servetune report --partial"


def _clock(at: str) -> str:
    """Write a time of day, with its date unless that is today."""
    when = datetime.fromisoformat(at)
    is_today = when.date() == datetime.now().astimezone().date()
    return f"{when:%H:%M}" if is_today else f"{when:%Y-%m-%d %H:%M}"
