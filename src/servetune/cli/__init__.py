"""The `servetune` command: a subcommand per step, so that you can run each by hand."""

from servetune.cli import adopt, bundles, check, predictions, results, steps, upkeep
from servetune.cli.app import app

__all__ = ["adopt", "app", "bundles", "check", "predictions", "results", "steps", "upkeep"]
