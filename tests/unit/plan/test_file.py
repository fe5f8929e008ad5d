"""The plan as the workflow makes it, every time that it is read."""

import subprocess
import sys


def test_a_plan_is_made_without_the_libraries_that_take_longest_to_import() -> None:
    program = (
        "import sys, servetune.plan.file\n"
        "print(*({'numpy', 'pandas', 'scipy', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
