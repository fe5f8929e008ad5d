"""How far is a tuning's candidate from what its base's first launch predicts of it?

Run: uv run python benchmarks/predicted_candidates.py [--all]

For each recorded tuning: what was measured of each candidate that was launched (the mean of its
launches), and what was predicted before the second round, as a race has it. With --all the whole
space is predicted, in a minute or two, to say how many are predicted as high as the best measured.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean

from scipy.stats import spearmanr

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.plan.make import declare_candidates  # noqa: E402
from servetune.predict.candidates import predict_candidates  # noqa: E402
from servetune.study.study import read_study  # noqa: E402
from servetune.tables.trial_results import trial_results  # noqa: E402
from tests.paths import GALLERY  # noqa: E402
from tests.recorded import plan_of  # noqa: E402

STUDIES = ("h200-tune", "h100-tune", "h100-tune-long", "phi4-tune")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="predict candidates not launched too")
    is_all = parser.parse_args().all
    for study in STUDIES:
        plan = plan_of(study)
        assert plan.tuning is not None
        found = defaultdict(list)
        for each in trial_results(plan, plan.sessions, GALLERY):
            if each.value:
                found[each.trial.candidate].append(each.value)
        of = [one for one in plan.tuning.candidates if is_all or one.name in found]
        declared = declare_candidates(plan, read_study(study, GALLERY), GALLERY)
        told = predict_candidates(plan.tuning, of, declared, plan.trials_before(2), GALLERY)
        print(f"{study}, {plan.tuning.tune.objective}")
        means = {name: geometric_mean(values) for name, values in found.items()}
        best = told[max(means, key=means.__getitem__)]
        high = sum(value >= 0.99 * best for value in told.values())
        print(f"  of {len(told)}, {high} are predicted within 1 % of the best measured or above it")
        for name, mean in sorted(means.items(), key=lambda each: -told[each[0]]):
            print(f"  {name:70} {mean:9.4g} predicted {told[name]:9.4g} {told[name] / mean:5.2f}x")
        order = spearmanr([told[name] for name in means], [*means.values()]).statistic
        print(f"  rank correlation of {len(means)}: {order:.2f}")


if __name__ == "__main__":
    main()
