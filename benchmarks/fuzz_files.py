"""How many changed files of a project are refused by what reads them, and whether any does harm.

    uv run python benchmarks/fuzz_files.py [COUNT]

In each round one file of a project is changed: bytes, a cut, a value of its JSON, another file or
a folder in its place. Then all that reads it runs: the doctor, tables, report, `retry`, what is
owed. Harm is a traceback, a message of more than one line, a change outside of the project, and a
file that is broken still once the doctor has mended it. Every 100th round also renders the report.
"""

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz_imports import with_other_value

from servetune.bundle.results import launches_of
from servetune.doctor import check_files, set_aside
from servetune.engines.environments import read_engine
from servetune.errors import UserError
from servetune.files import read_model
from servetune.models.make import checkpoint
from servetune.plan.file import read_plan
from servetune.plan.pending import pending_of
from servetune.plan.planned import Plan
from servetune.records.sessions import Ceilings
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.reading import read_measured
from servetune.sessions.retry import forget
from servetune.tables.freshness import report_digest
from servetune.tables.write import write_tables
from servetune.workloads.datasets import read_requests
from tests.recorded import plan_of
from tests.written import STUDY, write_project

RENDERED = 100
"""The report is rendered once in so many rounds: that takes a hundred times as long."""


def readers(root: Path, plan: Plan, has_report: bool) -> Iterator[Callable[[], object]]:
    """Yield all that reads what a project wrote."""
    for file in sorted((root / ".servetune").glob("plan-*.json")):
        yield partial(read_plan, file, root)
    for session in plan.sessions:
        yield partial(launches_of, session, root)
        yield partial(pending_of, session, root)
    yield lambda: read_requests(root / "data" / "workloads" / "text-0.jsonl")
    yield lambda: checkpoint("tiny-0", root)
    yield lambda: read_engine("vllm-cpu-0")
    yield lambda: read_model(root.parent / "cache" / "ceilings" / "0.json", Ceilings)
    yield lambda: report_digest(plan, root)
    yield lambda: read_measured(plan, root)
    if has_report:
        yield lambda: write_tables(plan, root / "results" / STUDY)
        yield lambda: render_html(read_measured(plan, root))
        yield lambda: render_markdown(read_measured(plan, root))
    yield lambda: forget(STUDY, root)


def change(path: Path, others: list[Path], draw: random.Random) -> str:
    """Change a file; returns how."""
    kind = draw.choice(["value"] * 4 + ["bytes"] * 2 + ["cut", "empty", "other", "folder", "link"])
    content = path.read_bytes()
    if kind == "value":
        path.write_bytes(with_other_value(content, draw))
    elif kind == "bytes" and content:
        place = draw.randrange(len(content))
        path.write_bytes(content[:place] + draw.randbytes(4) + content[place + 4 :])
    elif kind == "cut":
        path.write_bytes(content[: draw.randrange(len(content) + 1)])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "other":
        path.write_bytes(draw.choice(others).read_bytes())
    else:
        path.unlink()
        path.mkdir() if kind == "folder" else path.symlink_to("/etc/hostname")
    return kind


def told_of(root: Path, plan: Plan, has_report: bool) -> Iterator[tuple[str, str]]:
    """Yield what came of each reader, and why."""
    for read in readers(root, plan, has_report):
        try:
            read()
            yield "read", ""
        except FileNotFoundError as error:
            yield "not there", str(error)
        except UserError as error:
            lines = str(error).count("\n") + 1
            yield "refused" if lines == 1 else "HARM: more than one line", str(error)
        except Exception as error:
            yield "HARM: traceback", repr(error)[:300]


def round_of(folder: Path, plan: Plan, whole: Path, has_report: bool, draw: random.Random) -> str:
    """Change one file of a copy of a project, and read all; returns what came of it."""
    shutil.copytree(whole, folder, symlinks=True)
    root = folder / "project"
    os.environ["SERVETUNE_CACHE"] = str(folder / "cache")
    beside = folder / "beside"
    beside.write_text("as it was")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != beside)
    path = draw.choice(files)
    kind = change(path, files, draw)
    told = [*told_of(root, plan, has_report)]
    harm = [f"{what}: {why}" for what, why in told if what.startswith("HARM")]
    found = [each for each in check_files(root) if each]
    harm += [f"HARM: more than one line: {each.why}" for each in found if "\n" in each.why]
    set_aside(found, root)
    harm += [f"HARM: still broken: {each.path}" for each in check_files(root) if each]
    now = {entry.name for entry in folder.iterdir()}
    if beside.read_text() != "as it was" or now != {"beside", "project", "cache", "python"}:
        harm.append(f"HARM: outside of the project: {now}")
    if harm:
        print(f"{path.relative_to(folder)} ({kind}): {harm[0]}", flush=True)
        return "HARM"
    if found:
        return "named by the doctor, and mended"
    return "refused" if any(what == "refused" for what, _ in told) else "possible all the same"


def main() -> int:
    """Print what came of so many files; exits with 1 if any did harm."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    draw, counts, plan = random.Random(0), Counter[str](), plan_of(STUDY)
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "whole"
        whole.mkdir()
        os.environ["SERVETUNE_CACHE"] = str(whole / "cache")
        write_project(whole)
        for index in range(count):
            folder = Path(scratch) / "changed"
            counts[round_of(folder, plan, whole, index % RENDERED == 0, draw)] += 1
            shutil.rmtree(folder)
    for told, number in counts.most_common():
        print(f"{number:6} {told}")
    return "HARM" in counts


if __name__ == "__main__":
    sys.exit(main())
