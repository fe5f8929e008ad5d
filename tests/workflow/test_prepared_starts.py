"""`--prepare`: the imports of a server are done while the one before it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.test_bundle import ENGINE, Host, export
from tests.workspace import PATIENCE_S, Workspace, make_workspace

ON_HOST = """\
import sys
from servetune.sessions import ahead, cores
ahead.SETTLE_WITHIN_S = {settle_within_s}
cores.spare_cores = lambda own: frozenset([max(own)]) if {has_spare} else frozenset()
from servetune.bundle.host import main
sys.exit(main())
"""
"""Measures in an unpacked bundle, on a host that has a core to spare, or none."""


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path
) -> tuple[Workspace, Path]:
    """A workspace in which nothing was measured, and the bundle of its study."""
    made = make_workspace(tmp_path_factory.mktemp("exported") / "workspace", engine_cache)
    study = made.study
    study["variants"] |= {"more": {"model": "standin", "server": {"max_num_seqs": 4}}}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 2, "requests": 4}]
    made.write_study(study)
    return made, export(made)


def prepared_run(
    exported: tuple[Workspace, Path],
    root: Path,
    *,
    has_spare: bool = True,
    settle_within_s: float = PATIENCE_S,
    **environment: str,
) -> tuple[list[dict[str, Any]], str]:
    """Measure a bundle with `--prepare`; returns its launches in their order, and what it said."""
    host = Host(root / "host")
    _, bundle = exported
    host.measure(bundle, "--stop-after", "0")
    folder = host.root / bundle.stem
    words = [str(folder / "project"), "--python", ENGINE, "--results", "results.tar.gz"]
    script = ON_HOST.format(has_spare=has_spare, settle_within_s=settle_within_s)
    done = subprocess.run(
        [*host.isolation, sys.executable, "-c", script, *words, "--prepare"],
        cwd=host.root,
        env={**host.environment, "PYTHONPATH": str(folder / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = (folder / "project/results/raw/standin").glob("*/launch-*.json")
    launches = [json.loads(file.read_text()) for file in files]
    hidden = list((folder / "project/results").rglob(".server*"))
    assert hidden == []
    return sorted(launches, key=lambda each: str(each["started_at"])), done.stderr


def test_each_start_but_the_first_is_prepared_and_measures_as_ever(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    launches, said = prepared_run(exported, tmp_path)
    assert [launch["prepared"] for launch in launches] == [False, True, True]
    assert {launch["status"] for launch in launches} == {"ok"}
    assert "plain start" not in said and "is not used" not in said
    records = (tmp_path / "host").glob("*/project/results/standin/records/*.json")
    measured = [json.loads(path.read_text()) for path in records]
    assert [record["status"] for record in measured] == ["ok"] * 3


def test_a_host_without_a_core_to_spare_prepares_nothing_and_says_so(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    launches, said = prepared_run(exported, tmp_path, has_spare=False)
    assert [launch["prepared"] for launch in launches] == [False] * 3
    cores = len(os.sched_getaffinity(0))
    assert f"no start is prepared: this host has no core to spare of its {cores}" in said


def test_where_imports_fail_before_their_turn_plain_starts_follow(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    launches, said = prepared_run(exported, tmp_path, STANDIN_IMPORTS="die")
    assert [launch["prepared"] for launch in launches] == [False] * 3
    assert {launch["status"] for launch in launches} == {"ok"}
    why = "ended with exit code 1: RuntimeError: these imports fail"
    assert said.count(f"a plain start, as the process that was prepared {why}") == 2


def test_no_load_begins_beside_imports_and_those_that_are_late_are_ended(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    launches, said = prepared_run(exported, tmp_path, settle_within_s=0.0, STANDIN_IMPORTS="hang")
    assert [launch["prepared"] for launch in launches] == [False] * 3
    why = "a plain start, as the process that was prepared was not ready after 0 s"
    assert said.count(why) == 2
