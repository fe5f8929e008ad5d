"""What the makers of checkpoints share: options, progress, and one-line refusals.

It runs in their environment and needs the standard library alone.
"""

import os
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import NoReturn

SCREEN = os.fdopen(os.dup(2), "w")


def read_options(parser: ArgumentParser, parent: str | None = None) -> Namespace:
    """Read a maker's own options and those of all: where to write, the seed, and from what.

    `parent` names the option that takes the checkpoint to begin from. From here on, what libraries
    print on stderr joins their stdout, which goes to the maker's log.
    """
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    if parent:
        parser.add_argument(f"--{parent}", type=Path, required=True)
    options = parser.parse_args()
    if parent and not (folder := getattr(options, parent) / "config.json").is_file():
        refuse(f"--{parent} {folder.parent} is no checkpoint directory: it has no config.json")
    if options.seed < 0:
        refuse(f"--seed must be 0 or more, got {options.seed}")
    os.dup2(1, 2)
    return options


class Progress:
    """Lines for the screen, one every ten seconds: what runs, how far, what is left."""

    def __init__(self, what: str, steps: int) -> None:
        self.what, self.steps, self.done = what, steps, 0
        self.began = self.shown = time.monotonic()

    def show(self, step: int, detail: str = "") -> None:
        """Say that `step` steps are done, once, if ten seconds have passed or it was the last."""
        now = time.monotonic()
        if step == self.done or (now - self.shown < 10 and step < self.steps):
            return
        self.shown, self.done = now, step
        left = (now - self.began) / step * (self.steps - step)
        told = [f"{self.what}: step {step}/{self.steps}", detail, f"{left:.0f} s left"]
        say(", ".join(filter(None, told)))


def say(line: str) -> None:
    """One line for the screen, at once."""
    print(line, file=SCREEN, flush=True)


def refuse(reason: str) -> NoReturn:
    """End the program over bad input: one line, exit code 2."""
    say(f"error: {reason}")
    raise SystemExit(2)
