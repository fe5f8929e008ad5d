"""What the makers of checkpoints share: options, progress, and one-line refusals.

It runs in their environment and needs the standard library alone.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import NoReturn


def read_options(parser: ArgumentParser, parent: str | None = None) -> Namespace:
    """Read a maker's own options and those of all: where to write, the seed, and from what.

    `parent` names the option that takes the checkpoint to begin from.
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
    return options


class Progress:
    """Lines on stderr, one every ten seconds: what runs, how far, what is left."""

    def __init__(self, what: str, steps: int) -> None:
        self.what, self.steps = what, steps
        self.began = self.shown = time.monotonic()

    def show(self, step: int, detail: str) -> None:
        """Say that `step` steps are done, if ten seconds have passed or it was the last."""
        now = time.monotonic()
        if now - self.shown < 10 and step < self.steps:
            return
        self.shown = now
        left = (now - self.began) / step * (self.steps - step)
        say(f"{self.what}: step {step}/{self.steps}, {detail}, {left:.0f} s left")


def say(line: str) -> None:
    """One line on stderr, at once."""
    print(line, file=sys.stderr, flush=True)


def refuse(reason: str) -> NoReturn:
    """End the program over bad input: one line on stderr, exit code 2."""
    say(f"error: {reason}")
    raise SystemExit(2)
