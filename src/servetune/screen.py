"""What `rich` draws in a terminal, in which text of others steers and formats nothing."""

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from servetune.terminal import visible


def draw(drawn: RenderableType) -> None:
    """Print what `rich` renders."""
    screen = console()
    screen.print(harmless(drawn, screen))


def console(*, error: bool = False) -> Console:
    """Return a console of `rich` that takes text as it is: nothing in brackets formats or links."""
    return Console(stderr=error, markup=False, emoji=False)


def harmless(drawn: RenderableType, on: Console) -> Segments:
    """Return what `rich` renders with its text made visible; colours and frames stay."""
    return Segments(
        part if part.control else Segment(visible(part.text), part.style)
        for part in on.render(drawn)
    )
