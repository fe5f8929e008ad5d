"""What a host lacks is installed with the pins and hashes of the project's lock, or not at all."""

import base64
import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servetune.bundle import start
from servetune.bundle.requirements import requirements
from servetune.bundle.start import NEEDED, REQUIREMENTS, TO_TUNE, lacking
from servetune.errors import UserError
from tests.paths import ROOT

PACKAGES = [*NEEDED.values(), *TO_TUNE.values()]


def pinned() -> dict[str, list[str]]:
    """Return the hashes of each requirement, by its text."""
    lines = requirements(PACKAGES, ROOT).splitlines()
    return {line.partition(" --hash")[0]: re.findall(r"--hash=(\S+)", line) for line in lines}


def test_every_requirement_is_one_version_with_the_hashes_of_the_lock() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    known = {
        (package["name"], package["version"]): {wheel["hash"] for wheel in package["wheels"]}
        for package in packages
        if "wheels" in package
    }
    for text, hashes in pinned().items():
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        assert hashes and set(hashes) <= known[requirement.name, specifier.version]
        assert all(each.startswith("sha256:") for each in hashes)


@pytest.mark.parametrize("python", ["3.11.4", "3.11.9", "3.12.3"])
def test_a_host_finds_each_package_and_what_it_needs_once(python: str) -> None:
    host = {"sys_platform": "linux", "python_full_version": python, "python_version": python[:4]}
    of = [Requirement(text) for text in pinned()]
    chosen = [each.name for each in of if not each.marker or each.marker.evaluate(host)]
    assert len(chosen) == len(set(chosen))
    assert {canonicalize_name(name) for name in PACKAGES} <= set(chosen)
    assert {"anyio", "httpcore", "pydantic-core", "python-dateutil", "six"} <= set(chosen)


def test_what_an_engine_has_stays_as_it_is() -> None:
    text = "numpy==0.1 --hash=sha256:0\nno-such-package==1\npydantic-core==0.1\nnvidia-ml-py==1\n"
    assert lacking(text, {"nvidia-ml-py"}) == "no-such-package==1\n"


def test_a_folder_of_studies_in_a_clone_packs_what_the_clones_lock_pins(tmp_path: Path) -> None:
    assert requirements(PACKAGES, tmp_path) == requirements(PACKAGES, ROOT)


def test_a_project_without_its_lock_packs_no_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servetune.bundle.requirements.is_clone", lambda: False)
    with pytest.raises(UserError, match=r"uv\.lock: no such file; expected this project's lock"):
        requirements(PACKAGES, tmp_path)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has pip and nothing else."""
    home = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    return home / "bin" / "python"


def write_wheel(folder: Path) -> str:
    """Write a wheel of httpx 9.9; returns its digest."""
    folder.mkdir()
    info = "httpx-9.9.dist-info"
    files = {
        "httpx.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: httpx\nVersion: 9.9\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{name},{_digest(text)},{len(text)}\n" for name, text in files.items())
    path = folder / "httpx-9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(text: str) -> str:
    encoded = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={encoded.decode().rstrip('=')}"


@pytest.mark.parametrize("is_right", [True, False])
def test_only_a_package_with_the_pinned_hash_is_installed(
    is_right: bool, bare: Path, tmp_path: Path
) -> None:
    digest = write_wheel(tmp_path / "wheels")
    bundle = tmp_path / "study.pyz"
    with zipfile.ZipFile(bundle, "w") as content:
        content.write(start.__file__, "__main__.py")
        of = digest if is_right else "0" * 64
        content.writestr(REQUIREMENTS, f"httpx==9.9 --hash=sha256:{of}\n")
        content.writestr("project/bundle.json", "{}")
    done = subprocess.run(
        [str(bare), str(bundle), "--folder", "out", "--packages", "packages"],
        cwd=tmp_path,
        env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels"), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (tmp_path / "packages/httpx.py").exists() is is_right
    # Goes on to unpack only where all is there.
    assert (tmp_path / "out/project/bundle.json").exists() is is_right
    assert ("servetune: pip could not install into packages" in done.stderr) is not is_right


def test_a_host_that_lacks_packages_is_told_which_and_how_to_get_them(
    bare: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "study.pyz"
    with zipfile.ZipFile(bundle, "w") as content:
        content.write(start.__file__, "__main__.py")
        content.writestr(REQUIREMENTS, "")
    words = [str(bare), str(bundle), "--folder", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert len(done.stderr.splitlines()) == 1
    assert "lacks aiohttp, httpx," in done.stderr and "pass --packages DIR" in done.stderr
