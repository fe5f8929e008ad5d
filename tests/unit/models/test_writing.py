"""What the maker of a checkpoint shows of itself."""

import subprocess
import sys
from pathlib import Path

MAKER = """
import sys, warnings
from argparse import ArgumentParser
from servetune.models.inside.writing import Progress, read_options, refuse
read_options(ArgumentParser())
warnings.warn("of a library")
print("0%|          | 0/39", file=sys.stderr)
progress = Progress("train", 2)
for step in (1, 2, 2, 2):
    progress.show(step)
refuse("too few texts")
"""


def test_the_screen_shows_a_makers_own_lines_and_its_log_what_libraries_print(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", MAKER, f"--out={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["train: step 2/2, 0 s left", "error: too few texts"]
    assert "of a library" in done.stdout and "0/39" in done.stdout
