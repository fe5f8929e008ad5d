"""How many changed archives and session records are refused, and whether any does harm.

    uv run python benchmarks/fuzz_imports.py [COUNT [SEED]]

Half of the rounds import an archive of a recorded study into a project that has measured some of
the same, or nothing: the archive's story is longer, shorter or the same, with up to three changes
to its manifest, launches, records, logs, samples, names or bytes. The other half change the record
of a session in the project itself, as a merge may. After each, every command runs that reads what
changed. Harm is a file of ours that is neither as it was nor put aside as it was (but for a launch
that ran still, which may go on), a change outside of results, a traceback, and an error of more
than one line. What draws the report, and the tables, runs in every 50th round: that takes ten times
as long.
"""

import contextlib
import glob
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from typer.testing import CliRunner

from servetune.bundle.manifest import MANIFEST
from servetune.cli import app
from servetune.files import read_model
from servetune.records.sessions import Launch
from servetune.telemetry.samples import read_samples
from tests.project import PARAMS, Project
from tests.recorded import results_of
from tests.stories import PLANNED, STUDY, content_of, pack, write_story

NAMES = ("../", "/etc/", "src/servetune/cli.py", "results/../x", "a" * 300, "results/\x00", "")
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 1e308, float("nan"), float("inf"), 10**30, "", [], {}),
    *("../../../src/servetune", "/tmp/x", "a\nb", "<script>", "\ud800", [[[[]]]], {"a": {}}),
    *(0, 1, 2, 3, "ok", "failed", "yesterday", "\x1b[2J", "2026-11-01T05:00:00+00:00", "$(rm x)"),
    {"cpu": "another"},
)
LAUNCH_KEYS = (
    *("launch", "started_at", "stopped_at", "host", "versions", "git", "slot", "measured"),
    *("command", "environment", "status", "server"),
)
"""Of a launch; what an archive changed of one of ours when it could."""

SESSION_KEYS = ("session", "engine", "hardware", "variant", "repeat", "measurements", "launches")

RENDERED = 50
COMMANDS = (
    ("plan",),
    ("status",),
    ("show",),
    ("doctor",),
    ("deploy", "len-4096"),
    ("deploy", "len-4096", "--as", "systemd"),
    ("history", "output_throughput_tok_s"),
)
HEAVY = (("tables",), ("report", "--partial"), ("predict", "--study", STUDY), ("clean",))


def write_base(root: Path) -> None:
    """Write a project that Git has, with all that a recorded study measured but two sessions."""
    Project(root)
    shutil.copytree(results_of(STUDY), root / "results" / STUDY)
    for session in PLANNED:
        (root / "results" / STUDY / "sessions" / f"{session.id}.json").unlink()
        for measurement in session.measurements:
            (root / "results" / STUDY / "records" / f"{measurement.id}.json").unlink()
    (root / "params.yaml").write_text(PARAMS.format(study=STUDY))
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Measure"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=root, check=True)


def with_other_value(content: bytes, draw: random.Random, keys: tuple[str, ...] = ()) -> bytes:
    """Return JSON with one value, of any depth or of one of these keys, replaced."""
    try:
        whole = json.loads(content)
    except ValueError:
        return content
    if not isinstance(whole, dict | list) or not whole:
        return json.dumps(draw.choice(VALUES)).encode()
    inside = whole
    if isinstance(whole, dict) and keys:
        key = draw.choice(keys)
        if draw.random() < 0.5 or not isinstance(whole.get(key), dict | list) or not whole[key]:
            whole[key] = draw.choice(VALUES)
            return json.dumps(whole).encode()
        inside = whole[key]
    while True:
        key = draw.choice([*inside] if isinstance(inside, dict) else range(len(inside)))
        below = inside[key]
        if not isinstance(below, dict | list) or not below or draw.random() < 0.2:
            inside[key] = draw.choice(VALUES)
            return json.dumps(whole).encode()
        inside = below


def members(done: int, folder: Path) -> dict[str, bytes]:
    """Return the files of the archive of a story by their names in it."""
    write_story(folder, done, PLANNED)
    pack(folder, folder / "a.tar.gz")
    with tarfile.open(folder / "a.tar.gz") as archive:
        files = [member for member in archive if member.isfile()]
        return {member.name: _read(archive, member) for member in files}


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file
    return file.read()


def packed(files: dict[str, bytes]) -> bytes:
    """Return files as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def changed(files: dict[str, bytes], draw: random.Random) -> bytes:
    """Return an archive of the files with up to three changes."""
    files = dict(files)
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        if not files:
            break
        launches = [name for name in files if "/launch-" in name]
        kinds = ["launch"] * 4 + ["renumber", "value", "record", "record", "append", "swap"]
        kind = draw.choice([*kinds, "bytes", "cut", "name", "gone", "gone", "rename"])
        name = draw.choice([*files])
        content = files[name]
        if kind == "launch" and launches:
            name = draw.choice(launches)
            files[name] = with_other_value(files[name], draw, LAUNCH_KEYS)
        elif kind == "renumber" and launches:
            name = draw.choice(launches)
            number = draw.choice([1, 2, 3, 30])
            with contextlib.suppress(ValueError, TypeError):
                launch = {**json.loads(files[name]), "launch": number}
                del files[name]
                name = f"{name.rpartition('/')[0]}/launch-{number}.json"
                files[name] = json.dumps(launch).encode()
        elif kind == "value":
            name = MANIFEST if MANIFEST in files and draw.random() < 0.5 else name
            files[name] = with_other_value(files[name], draw)
        elif kind == "record":
            records = [other for other in files if "/records/" in other] or [name]
            name = draw.choice(records)
            keys = ("launch", "session", "metrics", "status", "measurement", "load", "started_at")
            files[name] = with_other_value(files[name], draw, keys)
        elif kind == "append":
            files[name] = content + content[: draw.randrange(len(content) + 1)]
        elif kind == "swap":
            files[name] = files[draw.choice([*files])]
        elif kind == "bytes" and content:
            place = draw.randrange(len(content))
            files[name] = content[:place] + draw.randbytes(4) + content[place + 4 :]
        elif kind == "cut":
            files[name] = content[: draw.randrange(len(content) + 1)]
        elif kind == "name":
            files[draw.choice(NAMES) + name] = files.pop(name)
        elif kind == "rename":
            # As a variant of another name would have it.
            old, new = draw.choice([("len-4096", "aaa"), ("-r1-", "-r2-"), ("len-32768", "zzz")])
            files = {
                key.replace(old, new): value.replace(old.encode(), new.encode())
                for key, value in files.items()
            }
        elif kind == "gone":
            del files[name]
    archive = bytearray(packed(files))
    if draw.random() < 0.05:
        archive[draw.randrange(len(archive))] ^= 1 << draw.randrange(8)
    return bytes(archive[: draw.randrange(len(archive))] if draw.random() < 0.03 else archive)


def answer_of(*words: str) -> tuple[str, str]:
    """Run a command in this folder; returns what came of it, and why."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(".servetune/running")
    done = CliRunner().invoke(app, [*words])
    if done.exception and not isinstance(done.exception, SystemExit):
        return f"HARM: traceback of {words[0]}", repr(done.exception)[:300]
    # Beside what it says of its progress.
    lines = [line for line in done.stderr.splitlines() if not re.match(r"\[ *\d+:\d\d\] ", line)]
    if done.exit_code == 2 and not (len(lines) == 1 and lines[0].isprintable()):
        return f"HARM: more than one line of {words[0]}", done.stderr[:500]
    return ("answered" if done.exit_code in (0, 1, 3) else "refused"), done.stderr


def harm_to(before: dict[str, bytes], now: dict[str, bytes], was: Path, root: Path) -> str:
    """Say what of ours is not as it was; a launch that ran still may have gone on."""
    for name, content in before.items():
        if now.get(name) == content or _is_aside(root, name, content):
            continue
        if name not in now:
            return f"{name} is gone"
        if not _went_on(was / name, root / name):
            return f"{name} is another one"
    return ""


def _is_aside(root: Path, name: str, content: bytes) -> bool:
    """Tell whether a file that no record names was put aside, as it was."""
    found = (root / ".servetune" / "aside").glob(f"*/{glob.escape(name)}")
    return any(path.read_bytes() == content for path in found)


def _went_on(before: Path, after: Path) -> bool:
    """Tell whether a file of a launch that is unknown, or had not stopped, is the same and more."""
    number = before.stem.rpartition("-")[2]
    launch = before.with_name(f"launch-{number}.json")
    if launch.is_file() and read_model(launch, Launch).stopped_at:
        return False
    if before.suffix == ".log":
        return after.read_bytes().startswith(before.read_bytes())
    if before.suffix == ".parquet":
        start = read_samples(before)
        return (
            read_samples(after).iloc[: len(start)][[*start]].astype(str).equals(start.astype(str))
        )
    old, new = (json.loads(path.read_text()) for path in (before, after))
    stands = all(new[key] == old[key] for key in ("launch", "started_at", "command", "host"))
    stands &= all(new[key] == old[key] for key in ("versions", "git", "slot", "environment"))
    return stands and new["measured"][: len(old["measured"])] == old["measured"]


def imported(archive: bytes, is_drawn: bool) -> Iterator[tuple[str, str]]:
    """Import an archive into the project of this folder, and run the commands if it was taken."""
    Path("a.tar.gz").write_bytes(archive)
    before = content_of(Path())
    with tempfile.TemporaryDirectory() as was:
        shutil.copytree("results", Path(was, "results"))
        told = answer_of("bundle", "import", "a.tar.gz")
        Path("a.tar.gz").unlink()
        yield told
        now = content_of(Path())
        if told[0] == "refused" and now != before:
            yield "HARM: refused, and something changed", told[1]
        if harm := harm_to(before, now, Path(was), Path()):
            yield "HARM: ours is not as it was", harm
    if now != before:
        yield from answers(is_drawn)


def answers(is_drawn: bool) -> Iterator[tuple[str, str]]:
    """Run all commands that read results, in this folder."""
    measured = _measured()
    for words in (*COMMANDS, *(HEAVY if is_drawn else ())):
        yield answer_of(*words)
    if _measured() != measured:
        yield "HARM: a command changed what was measured", ""


def _measured() -> dict[str, bytes]:
    kinds = ("records", "sessions", "searches", "quality", "tuning")
    return {
        name: content
        for name, content in content_of(Path()).items()
        if name.startswith("results/raw/") or Path(name).parts[2] in kinds
    }


def round_of(index: int, base: Path, stories: list[dict[str, bytes]], draw: random.Random) -> str:
    """Change one archive or session record of a copy of a project; returns what came of it."""
    shutil.rmtree("results", ignore_errors=True)
    shutil.copytree(base / "results", "results")
    is_drawn = index % RENDERED < 2
    if index % 2:
        sessions = sorted(Path("results", STUDY, "sessions").glob("*.json"))
        path = draw.choice(sessions)
        keys = draw.choice([SESSION_KEYS, ()])
        content = path.read_bytes()
        if draw.random() < 0.5:
            whole = json.loads(content)
            launch = json.dumps(draw.choice(whole["launches"])).encode()
            whole["launches"][0] = json.loads(with_other_value(launch, draw, LAUNCH_KEYS))
            path.write_text(json.dumps(whole))
        else:
            path.write_bytes(with_other_value(content, draw, keys))
        kind, told = "session record", [*answers(is_drawn)]
    else:
        for name, content in draw.choice([{}, *stories]).items():
            if name != MANIFEST and (draw.random() < 0.95):
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_bytes(content)
        told = [*imported(changed(draw.choice(stories), draw), is_drawn)]
        kind = f"archive {told[0][0]}"
    outside = {path.name for path in Path().iterdir()} - NAMED
    if outside:
        told.append(("HARM: outside of results", str(outside)))
    for what, why in told:
        if what.startswith("HARM"):
            print(f"round {index} ({kind}): {what}: {why}", flush=True)
            return what
    if kind.startswith("archive"):
        return kind
    return f"{kind}: {'read' if all(what == 'answered' for what, _ in told) else 'refused'}"


NAMED = {"studies", "workflow", "data", "params.yaml", "results", ".git", ".servetune", "reports"}
"""What a project has."""


def main() -> int:
    """Print what came of so many rounds; exits with 1 if any did harm."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    draw, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        base, root = Path(scratch, "base"), Path(scratch, "project")
        os.environ["SERVETUNE_CACHE"] = str(Path(scratch, "cache"))
        write_base(base)
        stories = [members(done, Path(scratch, str(done))) for done in range(1, 5)]
        shutil.copytree(base, root)
        with contextlib.chdir(root):
            for index in range(count):
                counts[round_of(index, base, stories, draw)] += 1
    for told, number in counts.most_common():
        print(f"{number:6} {told}")
    broken = sum(number for told, number in counts.items() if told.startswith("HARM"))
    print(f"{count} rounds: {broken} did harm")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
