"""Pinned environments: their locks, and what an unknown one is told."""

import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from servetune.engines.environments import build_engine, vllm_version
from servetune.errors import UserError
from tests.paths import ROOT


@pytest.mark.parametrize("engine", ["vllm-cpu", "vllm-cuda"])
def test_the_arguments_of_each_pinned_version_are_known_before_it_is_built(
    engine: Literal["vllm-cpu", "vllm-cuda"],
) -> None:
    version = vllm_version(engine, ROOT)
    assert (ROOT / "workflow" / "envs" / f"vllm-{version}.arguments.json").is_file()


def test_the_lock_of_vllm_cuda_resolves_and_each_package_has_a_hash(tmp_path: Path) -> None:
    lock = ROOT / "workflow" / "envs" / "vllm-cuda.txt"
    words = ["uv", "pip", "install", "--dry-run", "--require-hashes", "-r", str(lock)]
    words += ["--target", str(tmp_path), "--python-platform", "x86_64-manylinux_2_28"]
    # A registry may be slow.
    patient = {**os.environ, "UV_HTTP_TIMEOUT": "300", "UV_HTTP_RETRIES": "10"}
    done = subprocess.run(words, env=patient, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pinned = {line.split()[0] for line in lock.read_text().splitlines() if "==" in line}
    planned = {line.removeprefix(" + ") for line in done.stderr.splitlines() if "==" in line}
    assert planned == pinned


def test_an_engine_that_is_none_is_told_every_form(tmp_path: Path) -> None:
    forms = "llama-cpp, .*vllm-cpu==VERSION, vllm==VERSION, or a Python by its path"
    with pytest.raises(UserError, match=f"engine: vlm-cpu: expected .*{forms}; did you mean"):
        build_engine("vlm-cpu", tmp_path)
