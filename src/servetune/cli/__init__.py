"""The `servetune` command: a subcommand per step, so that you can run each by hand."""

from servetune.cli import adopt, bundles, predictions, results, steps, upkeep
from servetune.cli.app import app

__all__ = ["adopt", "app", "bundles", "predictions", "results", "steps", "upkeep"]
