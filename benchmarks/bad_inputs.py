"""How long each input that nobody means takes to be refused: 3 s at most, by kind.

uv run python benchmarks/bad_inputs.py
"""

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from servetune.errors import UserError
from servetune.plan.make import make_plan, read_params
from tests.bad_inputs import CASES, Case
from tests.project import Project

MOST_S = 3.0


def seconds(case: Case) -> float | None:
    """Return how long a case takes to be refused in one line; None if it is not."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        case.edit(project)
        began = time.perf_counter()
        try:
            make_plan(read_params(project.root), project.root)
        except UserError as error:
            return time.perf_counter() - began if str(error).isprintable() else None
        except Exception:
            return None
    return None


def main() -> None:
    taken: dict[str, list[float | None]] = defaultdict(list)
    for case in CASES:
        taken[case.kind].append(seconds(case))
    print("| kind | inputs | refused in one line | longest, s |\n| --- | --- | --- | --- |")
    refused = []
    for kind, all_s in taken.items():
        told = [each for each in all_s if each is not None]
        refused += told
        print(f"| {kind} | {len(all_s)} | {len(told)} | {max(told, default=0):.2f} |")
    print(f"| all | {len(CASES)} | {len(refused)} | {max(refused):.2f} |")
    sys.exit(len(refused) < len(CASES) or max(refused) > MOST_S)


if __name__ == "__main__":
    main()
