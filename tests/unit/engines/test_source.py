"""What the processes of other environments find in theirs."""

import inspect
import re
from importlib import import_module

import pytest

from servetune.engines.source import THREADS, environment_with_source


def test_no_process_takes_its_threads_from_the_cores_that_snakemake_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_by_snakemake = re.findall(
        r'envvars\["(\w+_THREADS)"\]', inspect.getsource(import_module("snakemake.shell"))
    )
    assert {*set_by_snakemake} == THREADS
    for name in set_by_snakemake:
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    environment = environment_with_source()
    assert not THREADS & environment.keys()
    assert environment["OMP_PROC_BIND"] == "close"
