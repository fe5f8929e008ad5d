"""The `servetune` command: a subcommand per step, so that you can run each by hand."""

from servetune.cli import bundles, results, steps, upkeep
from servetune.cli.app import app

__all__ = ["app", "bundles", "results", "steps", "upkeep"]
