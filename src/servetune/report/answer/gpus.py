"""GPUs of variants that have other numbers of them, and what one gains."""

from servetune.analysis.answer import Decision
from servetune.analysis.wording import plural
from servetune.numbers import NBSP
from servetune.report.measured import Measured
from servetune.report.verdicts import interval_of


def counted(gpus: int) -> str:
    """Count GPUs on one line: 2 GPUs."""
    return plural(gpus, "GPU").replace(" ", NBSP)


def gain_of_one(measured: Measured, decision: Decision, variant: str) -> str:
    """Write the gain in throughput that decides for each GPU, with its interval."""
    outcome, devices = decision.outcomes.get(variant), measured.gpus
    is_decisive = decision.metric.name == "output_throughput_tok_s"
    if not is_decisive or outcome is None or outcome.ratio is None or variant == decision.baseline:
        return ""
    share = devices[decision.baseline] / devices[variant]
    ends = (None if end is None else end * share for end in (outcome.low, outcome.high))
    return interval_of(outcome.ratio * share, *ends)
