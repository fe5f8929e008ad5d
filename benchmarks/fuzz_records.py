"""What every command says of a project that holds a hostile record.

    uv run python benchmarks/fuzz_records.py [COUNT [SEED]]

In each round one value of one record of a project takes a hostile one of `tests.hostile`: each
field of each kind of record has its turn. Then every command runs that reads records, and
`doctor --fix`. Harm is a traceback, a part of the report that could not be made, a message of more
than one line, a control character on the terminal, and a command that still refuses the project
once the doctor has mended it.
"""

import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from servetune.cli import app
from servetune.errors import UserError
from servetune.plan.kept import next_launch, session_record
from servetune.plan.make import make_plan, read_params
from servetune.plan.pending import pending_of
from servetune.plan.rounds import RoundRecord
from servetune.predict.declared import with_candidates
from servetune.predict.recorded import launch_of, read_loads
from servetune.records.measurements import MeasurementRecord
from servetune.records.quality import QualityRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import Launch, SessionRecord
from servetune.records.timelines import TimelineRecord
from servetune.study.study import read_study
from tests.hostile import VALUES, Place, fields, with_value
from tests.paths import GALLERY
from tests.recorded import results_of
from tests.written import STUDY, write_project

VARIANTS = {STUDY: "bf16", "phi4-tune": "expt-1"}
STUDIES = [*VARIANTS]
"""One with searches and quality, one with the rounds of a tuning."""

MODELS: dict[str, type[BaseModel]] = {
    "records": MeasurementRecord,
    "sessions": SessionRecord,
    "searches": SearchRecord,
    "quality": QualityRecord,
    "timelines": TimelineRecord,
    "tuning": RoundRecord,
    "launch": Launch,
}

TRIES = 12
"""Most values are refused by the schema: so many are drawn to find one that is not."""

READING = (
    *("plan", "status", "show", "tables", "report", "report --partial", "compare HEAD"),
    *("history ttft_p50_ms", "tune", "deploy {variant}", "deploy {variant} --as systemd"),
)

PROGRESS = re.compile(r"\[ *\d+:\d\d\]")

AFTER = ("plan", "status", "deploy {variant}")
"""What must give its answer once the doctor has mended a project."""

PREDICTED = 20
"""A prediction that nothing refuses takes half a minute: once in so many rounds it is made."""


def prepare(folder: Path, study: str) -> None:
    """Write a whole project with its history, and beside it a cache."""
    os.environ["SERVETUNE_CACHE"] = str(folder / "cache")
    root = write_project(folder)
    if study != STUDY:
        shutil.rmtree(root / "results")
        shutil.copytree(results_of(study), root / "results" / study)
    for name in ("studies", "Snakefile"):
        (root / name).symlink_to(GALLERY / name)
    (root / "params.yaml").write_text(f"study: {study}\nvariants: all\nseed: 0\n")
    for words in ("init -q", "add params.yaml results", "commit -qm measured"):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words.split()], cwd=root, check=True)


def changes(whole: Path, study: str, draw: random.Random) -> Iterator[tuple[Path, str, Place]]:
    """Yield a file, a name of VALUES and a place, without end: all fields in turn.

    Every second one is a value that the schema takes, where the field has such.
    """
    by_field: dict[tuple[str, str], list[tuple[Path, Place]]] = {}
    results = whole / "project" / "results"
    files = [(kind, file) for kind in MODELS for file in (results / study / kind).glob("*.json")]
    files += [("launch", file) for file in results.glob("raw/*/*/launch-*.json")]
    for kind, file in files:
        for name, places in fields(file.read_bytes()).items():
            # What vLLM tells of itself has hundreds.
            field = name.partition("server_info")[0] + name[-1:] if "server_info" in name else name
            by_field.setdefault((kind, field), []).extend((file, place) for place in places)
    is_odd = itertools.cycle((True, False))
    while True:
        for kind, name in draw.sample(sorted(by_field), len(by_field)):
            file, place = draw.choice(by_field[kind, name])
            values = draw.sample([*VALUES], TRIES)
            taken = (v for v in values if is_taken(MODELS[kind], file.read_bytes(), place, v))
            yield file, next(taken, values[0]) if next(is_odd) else values[0], place


def is_taken(model: type[BaseModel], content: bytes, place: Place, value: str) -> bool:
    """Tell whether the schema takes a value."""
    try:
        model.model_validate_json(with_value(content, place, VALUES[value]))
    except ValidationError:
        return False
    return True


def run(words: str) -> tuple[int, str]:
    """Run a command in this process; returns its exit code and what is wrong, if anything."""
    result = CliRunner().invoke(app, words.split())
    if result.exception and not isinstance(result.exception, SystemExit):
        return 3, f"traceback: {result.exception!r}"[:300]
    told = [line for line in result.stderr.splitlines() if not PROGRESS.match(line)]
    if result.exit_code == 2 and len(told) != 1:
        return 2, f"{len(told)} lines: {told[:3]}"
    if result.exit_code == 0 and told:
        return 0, f"a part could not be made: {told[0]}"
    odd = {c for c in result.output if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl")}
    return result.exit_code, f"control characters: {sorted(odd)}" if odd else ""


def owed(study: str) -> str:
    """Do what a run and a prediction read first; returns what is wrong."""
    try:
        plan = make_plan(read_params(Path()), Path())
        declared = with_candidates(read_study(study, Path()))
        for loads in read_loads(declared, study, Path()).values():
            for record, _ in loads:
                launch_of(record, study, Path())
        for session in plan.sessions:
            pending_of(session, Path())
            next_launch(session, Path())
            session_record(session, Path())
    except UserError as error:
        return "more than one line" if "\n" in str(error) else ""
    except Exception as error:
        return f"traceback: {error!r}"[:300]
    return ""


def round_of(folder: Path, study: str, has_prediction: bool) -> tuple[Counter[str], list[str]]:
    """Run every command in a project; returns what came of them, and the harm."""
    counts, harm, variant = Counter[str](), [], VARIANTS[study]

    def note(words: str) -> int:
        code, wrong = run(words.format(variant=variant))
        counts["refused" if code == 2 else "answered"] += 1
        if wrong:
            harm.append(f"{words}: {wrong}")
        return code

    with chdir(folder / "project"):
        for words in READING:
            note(words)
        if has_prediction:
            note("predict --concurrency 8")
        if wrong := owed(study):
            harm.append(f"run: {wrong}")
        found = note("doctor")
        note("doctor --fix")
        if note("doctor"):
            harm.append("doctor: not content once it has mended")
        counts["named by the doctor" if found else "taken as possible"] += 1
        harm += [f"{words}: refused after the doctor" for words in AFTER if note(words) == 2]
    return counts, harm


def main() -> int:
    """Print what came of so many hostile records; exits with 1 if any did harm."""
    # For this process stays as it is: `status` steps back behind a load.
    os.nice = lambda increment: 0
    count, seed = (int(word) for word in [*sys.argv[1:], *("500", "0")[len(sys.argv) - 1 :]])
    began = time.monotonic()
    draw, counts, harmed = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        wholes = {study: Path(scratch) / study for study in STUDIES}
        for study, whole in wholes.items():
            whole.mkdir()
            prepare(whole, study)
        drawn = {study: changes(whole, study, draw) for study, whole in wholes.items()}
        for index in range(count):
            study = STUDIES[index % len(STUDIES)]
            file, kind, place = next(drawn[study])
            # A folder of its own, as what is read is kept by its path.
            folder = Path(scratch) / f"round-{index}"
            shutil.copytree(wholes[study], folder, symlinks=True)
            os.environ["SERVETUNE_CACHE"] = str(folder / "cache")
            changed = folder / file.relative_to(wholes[study])
            changed.write_bytes(with_value(changed.read_bytes(), place, VALUES[kind]))
            came, harm = round_of(folder, study, index % PREDICTED == 0)
            counts += came
            harmed += bool(harm)
            name = ".".join(map(str, place))
            for each in harm:
                print(f"HARM {changed.relative_to(folder)}: {name} ({kind}): {each}", flush=True)
            shutil.rmtree(folder)
            if index % 25 == 24:
                print(f"{index + 1} records, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{count:6} hostile records, {harmed} did harm")
    for told, number in counts.most_common():
        print(f"{number:6} {told}")
    return harmed > 0


if __name__ == "__main__":
    sys.exit(main())
