"""How many changed archives of results are refused, and whether any does harm.

    uv run python benchmarks/fuzz_imports.py [COUNT]

Each archive is one of a recorded study with one to three changes: bytes, cut files, JSON values,
names of members. It is imported into an empty project; harm is a change outside of its results, a
traceback, or a message of more than one line.
"""

import io
import json
import random
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.bundle.results import take_results
from servetune.errors import UserError
from servetune.plan.make import make_plan

ROOT = Path(__file__).parents[1]
STUDY = "h200-capacity"
NAMES = ("../", "/etc/", "src/servetune/cli.py", "results/../x", "a" * 300, "results/\x00", "")
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 1e308, float("nan"), float("inf"), 10**30, "", [], {}),
    *("../../../src/servetune", "/tmp/x", "a\nb", "<script>", "\ud800", [[[[]]]], {"a": {}}),
)


def members() -> dict[str, bytes]:
    """Return the files of a valid archive by their names in it."""
    plan = make_plan({"study": STUDY, "variants": "all", "seed": 0}, ROOT)
    manifest = Manifest(study=STUDY, sessions=plan.sessions, engines={})
    files = {MANIFEST: manifest.model_dump_json().encode()}
    for kind in ("records", "searches"):
        for path in sorted((ROOT / "results" / STUDY / kind).glob("*.json")):
            files[str(path.relative_to(ROOT))] = path.read_bytes()
    return files


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
    """Return an archive of the files with one to three changes."""
    files = dict(files)
    for _ in range(draw.randint(1, 3)):
        name = draw.choice([MANIFEST, *files]) if MANIFEST in files else draw.choice([*files])
        kind = draw.choice(["value", "value", "bytes", "cut", "name", "link", "gone"])
        content = files[name]
        if kind == "value":
            files[name] = with_other_value(content, draw)
        elif kind == "bytes" and content:
            place = draw.randrange(len(content))
            files[name] = content[:place] + draw.randbytes(4) + content[place + 4 :]
        elif kind == "cut":
            files[name] = content[: draw.randrange(len(content) + 1)]
        elif kind == "name":
            files[draw.choice(NAMES) + name] = files.pop(name)
        elif kind == "gone":
            del files[name]
        if not files:
            break
    archive = bytearray(packed(files))
    if draw.random() < 0.1:
        archive[draw.randrange(len(archive))] ^= 1 << draw.randrange(8)
    return bytes(archive[: draw.randrange(len(archive))] if draw.random() < 0.05 else archive)


def with_other_value(content: bytes, draw: random.Random) -> bytes:
    """Return JSON with one value, of any depth, replaced."""
    try:
        whole = json.loads(content)
    except ValueError:
        return content
    if not isinstance(whole, dict | list) or not whole:
        return json.dumps(draw.choice(VALUES)).encode()
    inside = whole
    while True:
        key = draw.choice([*inside] if isinstance(inside, dict) else range(len(inside)))
        below = inside[key]
        if not isinstance(below, dict | list) or not below or draw.random() < 0.2:
            inside[key] = draw.choice(VALUES)
            return json.dumps(whole).encode()
        inside = below


def harm_of(archive: bytes, folder: Path) -> tuple[str, str]:
    """Import an archive into a project at an empty folder; returns what came of it, and why."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "code.py").write_text("code")
    file = folder.with_suffix(".tar.gz")
    file.write_bytes(archive)
    told, why = "imported", ""
    try:
        take_results(file, folder, [STUDY])
    except UserError as error:
        told, why = "refused", str(error)
        if "\n" in why:
            return "HARM: more than one line", why
    except Exception as error:
        return "HARM: traceback", repr(error)
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    outside = {name for name in names if not name.startswith("results/")} - {"src/code.py"}
    return ("HARM: a file elsewhere", str(outside)) if outside else (told, why)


def main() -> int:
    """Print what came of so many archives; exits with 1 if any did harm."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    files, draw, counts = members(), random.Random(0), Counter[str]()
    for index in range(count):
        archive = changed(files, draw)
        with tempfile.TemporaryDirectory() as scratch:
            told, why = harm_of(archive, Path(scratch) / "project")
        counts[told] += 1
        if told.startswith("HARM"):
            print(f"archive {index}: {told}: {why}")
    for told, number in counts.most_common():
        print(f"{number:6} {told}")
    return any(told.startswith("HARM") for told in counts)


if __name__ == "__main__":
    sys.exit(main())
