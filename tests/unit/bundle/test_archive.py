"""An archive of anyone is unpacked within its bounds, or refused in a line."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from servetune.bundle import archive
from servetune.errors import UserError
from tests import bombs
from tests.paths import ROOT

WITHIN = """
import resource, sys
from pathlib import Path
from servetune.bundle.archive import unpack
from servetune.errors import UserError
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 50 * 1024**2
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for place, name in enumerate(sys.argv[1:]):
    try:
        unpack(Path(name), Path(str(place)))
    except UserError as error:
        print(error)
"""
"""Unpacks archives in 50 MiB more than it has once it has imported."""

IN_HEADERS = [kind for kind in bombs.ARCHIVES if "header" in kind or "sparse" in kind]


def refusal(path: Path, folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        archive.unpack(path, folder)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("kind", bombs.ARCHIVES)
def test_a_small_archive_that_would_fill_gigabytes_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "FREE_BYTES", 1024**2)
    monkeypatch.setattr(archive, "MOST_FILES", 1000)
    path = bombs.write_archive(kind, tmp_path / "b.tar.gz", 2**26)
    assert path.stat().st_size < 2**19
    assert "not the results of a bundle" in refusal(path, tmp_path / "here")
    unpacked = sum(p.stat().st_size for p in (tmp_path / "here").rglob("*") if p.is_file())
    assert unpacked <= 1024**2 + archive.MOST_RATIO * path.stat().st_size


def test_what_is_refused_takes_no_memory_before_it_is(tmp_path: Path) -> None:
    paths = [
        bombs.write_archive(kind, tmp_path / f"{place}.tar.gz", 2**28)
        for place, kind in enumerate(IN_HEADERS)
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths) > 3
    assert all(": not the results of a bundle" in line for line in lines)


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for member, content in members:
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "name",
    [
        "results/" + "a/" * 400 + "x",
        "results/" + "a" * 300,
        "results/a\x1b[2Jb",
        "results/..",
        "results//etc/passwd",
        "bundle.json/x",
        "./results/x",
    ],
)
def test_a_name_that_no_result_has_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    path = packed(tmp_path / "b.tar.gz", (tarfile.TarInfo(name), b"x"))
    assert "not a file of a bundle's results" in refusal(path, tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_times_and_modes_of_an_archive_are_not_taken(tmp_path: Path) -> None:
    member = tarfile.TarInfo("results/x")
    member.mode = 0o4777
    member.pax_headers = {"mtime": "1e300"}
    archive.unpack(packed(tmp_path / "b.tar.gz", (member, b"x")), tmp_path / "here")
    status = (tmp_path / "here/results/x").stat()
    assert not status.st_mode & 0o7111
    assert status.st_mtime < 1e12


@pytest.mark.parametrize("size", [b"\xff" * 12, b"\xff" + bytes(11)], ids=["minus one", "far back"])
def test_a_negative_size_ends_in_a_line(size: bytes, tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("results/x").tobuf())
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(bytes(header) * 4 + bytes(1024)))
    assert "not " in refusal(path, tmp_path / "here")


def test_an_archive_that_is_damaged_after_its_last_file_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "b.tar.gz", (tarfile.TarInfo("results/x"), b"x" * 5000))
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    assert "damaged" in refusal(path, tmp_path / "here")


def test_an_archive_with_a_damaged_header_between_its_files_is_refused(tmp_path: Path) -> None:
    names = [f"results/{place}" for place in range(3)]
    path = packed(tmp_path / "b.tar.gz", *((tarfile.TarInfo(name), b"x") for name in names))
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[1024] ^= 1
    path.write_bytes(gzip.compress(content))
    assert "damaged header" in refusal(path, tmp_path / "here")


@pytest.mark.parametrize("kind", ["folder", "fifo", "nothing"])
def test_what_is_no_file_is_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    assert str(path) in refusal(path, tmp_path / "here")
