"""When a tuning has paid for itself: after how many busy hours its server time is earned back."""

from collections.abc import Mapping, Sequence

from servetune.metrics import METRIC
from servetune.numbers import number
from servetune.records.trials import TrialResult
from servetune.study.tune import Tune
from servetune.tune.verdict import Ratio


def payback_hours(server_s: float, gain: float) -> float:
    """Return the busy hours after which seconds of servers are earned back by a gain above 1.

    What took an hour of servers then takes `1 / gain` of it, so that each hour saves
    `1 - 1 / gain`, and what was spent is saved after `spent / (1 - 1 / gain)`: the break-even point
    of a fixed cost, which is the fixed cost over what each unit contributes.
    """
    return server_s / 3600 / (1 - 1 / gain)


def saves_time(tune: Tune) -> bool:
    """Tell whether better by the objective is less time of servers for the same requests."""
    metric = METRIC.get(tune.objective)
    if metric is None:
        return True
    return metric.unit.endswith("/s") or metric.name.startswith("cost_usd_")


def payback(
    tune: Tune, best: Ratio, seen: Sequence[TrialResult], base: str, devices: Mapping[str, int]
) -> str:
    """Say when a proven gain has paid for all launches; nothing where that is not known.

    That is so where requests are not served in less time, and where some servers have more
    `devices` than others, as their minutes do not cost the same.
    """
    launched = {each.trial.candidate for each in seen if each.server_s}
    if not best.is_better or not saves_time(tune) or len({devices.get(n) for n in launched}) > 1:
        return ""
    spent_s = sum(each.server_s for each in seen)
    sign = 1 if tune.is_higher_better else -1
    ends = sorted(best_end**sign for best_end in (best.lower, best.upper))
    likely, most, least = (payback_hours(spent_s, gain) for gain in (best.value**sign, *ends))
    return (
        f"The tuning's {number(spent_s / 60)} server minutes are paid for after"
        f" {number(likely)} [{number(least)}, {number(most)}] busy hours of a server of {base}."
    )
