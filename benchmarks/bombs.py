"""How much memory small files take that would fill gigabytes: peak RSS of a process of its own.

    uv run python benchmarks/bombs.py [GIBIBYTES]

Archives are imported; tables are checked by the doctor, as those of requests, of samples and of
results. The last ones are the most that is read at all of a file of that size. Exits with 1 if one
is not refused in a line, or takes more than 1 GB.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from servetune.files import MOST_JSON_BYTES
from tests import bombs
from tests.stories import STUDY

MOST_MB = 1000
MOST_READ_ROWS = 8_000_000

IMPORT = f"""
import re, sys
from pathlib import Path
from servetune.bundle.results import take_results
from servetune.errors import UserError
try:
    print(dict(take_results(Path(sys.argv[1]), Path(sys.argv[2]), ["{STUDY}"]).counts))
except UserError as error:
    print(error)
"""
CHECK = """
import re, sys
from pathlib import Path
from servetune.doctor import check_files
found = [each for each in check_files(Path(sys.argv[2])) if each]
print(found[0].why if found else "read")
"""


def peak(code: str, *words: str) -> tuple[float, str]:
    """Run code in a process of its own; returns its peak RSS in MB, and what it printed."""
    # That of `resource` is inherited from this process.
    code += "print(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    if done.returncode:
        return 0.0, f"ended: {done.returncode}: {done.stderr[-200:]}"
    said, _, peak_kb = done.stdout.rstrip("\n").rpartition("\n")
    return int(peak_kb) * 1024 / 1e6, said


def cases(folder: Path, count: int) -> Iterator[tuple[str, Path, str]]:
    """Yield the name of each case, its file, and the code that reads it."""
    for kind in bombs.ARCHIVES:
        yield kind, bombs.write_archive(kind, folder / "a.tar.gz", count), IMPORT
    rows = count // 16
    raw = folder / "project" / "results" / "raw" / STUDY / "x"
    raw.mkdir(parents=True)
    for kind in bombs.TABLES:
        for name in ("requests.parquet", "telemetry-1.parquet", "../../../x/probes.parquet"):
            (path := raw / name).parent.mkdir(parents=True, exist_ok=True)
            few = min(rows, 2**20) if "text" in kind else rows
            yield f"{kind}, {path.name}", bombs.write_parquet(kind, path, few), CHECK
            path.unlink()
    path = raw / "requests.parquet"
    yield "a large footer", bombs.write_footer(path, 300_000), CHECK
    path.unlink()
    path = folder / "project" / "results" / "x" / "probes.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    for kind in ("a number that repeats", "a list that repeats"):
        yield f"the most of {kind}", bombs.write_parquet(kind, path, MOST_READ_ROWS), CHECK
        path.unlink()
    most = MOST_JSON_BYTES // 1024**2 * 1024**2 - 1024**2
    kind = "a manifest of lists"
    yield f"the most of {kind}", bombs.write_archive(kind, folder / "a.tar.gz", most), IMPORT


def main() -> int:
    """Print a row of each case."""
    count = int(float(sys.argv[1]) * 1024**3) if len(sys.argv) > 1 else 2**29
    broken = 0
    print("| file | kB | peak RSS, MB | what it says |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["SERVETUNE_CACHE"] = str(folder / "cache")
        (folder / "project").mkdir()
        nothing, _ = peak(CHECK, "", str(folder / "project"))
        print(f"| nothing | 0 | {nothing:.0f} | |")
        for name, path, code in cases(folder, count):
            size_kb = path.stat().st_size / 1e3
            peak_mb, said = peak(code, str(path), str(folder / "project"))
            is_well = peak_mb < MOST_MB and said.isprintable() and not said.startswith("ended")
            is_well &= said != "read" or name.startswith("the most")
            broken += not is_well
            said = said.rpartition(f"{path.name}: ")[2][:90]
            print(f"| {name} | {size_kb:.0f} | {peak_mb:.0f} | {said} |", flush=True)
    print(f"{broken} not refused, or above {MOST_MB} MB")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
