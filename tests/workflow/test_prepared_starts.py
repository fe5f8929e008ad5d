"""`--prepare`: the imports of a server are done while the one before it starts."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from servetune.sessions.cores import format_cores
from servetune.sessions.hardware import host_id
from servetune.sessions.host_verdicts import KeptVerdict, keep_verdict
from tests.workflow.test_bundle import ENGINE, Host, export
from tests.workflow.test_tuning_in_bundles import tuning as tuning
from tests.workspace import PATIENCE_S, Workspace, make_workspace

ON_HOST = """\
import sys
from servetune.sessions import ahead
ahead.SETTLE_WITHIN_S = {settle_within_s}
ahead.LEAST_CORES = {least_cores}
from servetune.bundle.host import main
sys.exit(main())
"""
"""Measures in an unpacked bundle, on a host with cores enough, or not."""


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
    least_cores: int = 1,
    settle_within_s: float = PATIENCE_S,
    **environment: str,
) -> tuple[list[dict[str, Any]], str]:
    """Measure a bundle with `--prepare`; returns its launches in their order, and what it said."""
    host = Host(root / "host")
    return measured_on(host, exported[1], settle_within_s, least_cores, environment)


def measured_on(
    host: Host,
    bundle: Path,
    settle_within_s: float = PATIENCE_S,
    least_cores: int = 1,
    environment: Mapping[str, str] = MappingProxyType({}),
    variants: Sequence[str] | None = (),
    more: Sequence[str] = (),
) -> tuple[list[dict[str, Any]], str]:
    """Measure a bundle on a host as `prepared_run` does; with no `--prepare` if `variants` is None.

    It stopped before: `more` words are those of going on.
    """
    host.measure(bundle, "--stop-after", "0")
    folder = host.root / bundle.stem
    words = [str(folder / "project"), "--python", ENGINE, "--results", "results.tar.gz"]
    words += [*more, *([] if variants is None else ["--prepare", *variants])]
    script = ON_HOST.format(least_cores=least_cores, settle_within_s=settle_within_s)
    done = subprocess.run(
        [*host.isolation, sys.executable, "-c", script, *words],
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
    cores = {launch["slot"]["cores"] for launch in launches}
    assert cores == {format_cores(os.sched_getaffinity(0))}
    assert "plain start" not in said and "is not used" not in said
    records = (tmp_path / "host").glob("*/project/results/standin/records/*.json")
    measured = [json.loads(path.read_text()) for path in records]
    assert [record["status"] for record in measured] == ["ok"] * 3


def test_variants_that_are_named_alone_are_prepared(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    """So that an A/A of plain and prepared starts is interleaved."""
    launches, _ = measured_on(Host(tmp_path / "host"), exported[1], variants=["more"])
    first, *later = launches
    assert not first["prepared"]
    assert [each["prepared"] for each in later] == ["4" in each["command"] for each in later]


@pytest.mark.parametrize(("more", "is_prepared"), [([], True), (["--no-prepare"], False)])
def test_a_host_where_such_servers_are_proven_to_serve_alike_prepares_unless_told_not_to(
    exported: tuple[Workspace, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    is_prepared: bool,
) -> None:
    host, bundle = Host(tmp_path / "host"), exported[1]
    host.measure(bundle, "--stop-after", "0")
    verdict = KeptVerdict(
        way="prepared",
        host=host_id(),
        verdict="alike",
        study="pair",
        launches=12,
        judged_at="2026-11-28",
    )
    monkeypatch.setenv("SERVETUNE_CACHE", str(host.root / bundle.stem / "project/.cache"))
    keep_verdict(verdict)
    launches, _ = measured_on(host, bundle, variants=None, more=more)
    assert [launch["prepared"] for launch in launches] == [False, is_prepared, is_prepared]
    assert {launch["slot"]["prepared"] for launch in launches} == {"alike"}


def test_an_a_a_of_plain_and_prepared_starts_is_judged_and_kept_for_its_host(
    workspace: Workspace, tmp_path: Path
) -> None:
    study = workspace.study
    study["baseline"], study["repeats"] = "plain", 2
    study["variants"] = {name: {"model": "standin"} for name in ("plain", "ahead")}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 2, "requests": 4}]
    workspace.write_study(study)
    early = workspace.run("servetune", "interference", "--study", "standin")
    assert early.returncode == 2
    assert "bundle export, on the host with --prepare ahead" in early.stderr
    assert not workspace.records()
    host = Host(tmp_path / "host")
    measured_on(host, export(workspace), variants=["ahead"])
    workspace.check("servetune", "bundle", "import", str(host.root / "results.tar.gz"))
    told = workspace.check("servetune", "interference", "--study", "standin")
    (line,) = [line for line in told.splitlines() if line.startswith("host ")]
    # Two launches of four requests each prove nothing, and what is not proven is not the default.
    assert ": undecided: bundles start plainly on this host" in line
    (kept,) = Path(workspace.environment["SERVETUNE_CACHE"]).glob("hosts/prepared/*.json")
    assert str(kept) in line


def test_a_host_of_few_cores_prepares_nothing_and_says_so_once(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    cores = len(os.sched_getaffinity(0))
    launches, said = prepared_run(exported, tmp_path, least_cores=cores + 1)
    assert [launch["prepared"] for launch in launches] == [False] * 3
    few = f"no start is prepared: a session has {cores} cores here, expected at least {cores + 1}"
    assert said.count(few) == 1


@pytest.mark.parametrize(
    ("imports", "why"),
    [
        ("die", "ended with exit code 1: RuntimeError: these imports fail"),
        ("die later", "did not start: RuntimeError: these imports were of no use"),
    ],
)
def test_one_that_dies_before_or_after_its_word_is_started_plainly_and_measured(
    exported: tuple[Workspace, Path], tmp_path: Path, imports: str, why: str
) -> None:
    launches, said = prepared_run(exported, tmp_path, STANDIN_IMPORTS=imports)
    assert [launch["prepared"] for launch in launches] == [False] * 3
    assert {launch["status"] for launch in launches} == {"ok"}
    assert said.count(f"a plain start, as the process that was prepared {why}") == 2


def test_no_load_begins_beside_imports_and_those_that_are_late_are_ended(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    launches, said = prepared_run(exported, tmp_path, settle_within_s=0.0, STANDIN_IMPORTS="hang")
    assert [launch["prepared"] for launch in launches] == [False] * 3
    why = "a plain start, as the process that was prepared was not ready after 0 s"
    assert said.count(why) == 2


def test_the_first_start_of_a_tunings_round_is_plain_and_the_others_are_prepared(
    tuning: Workspace, tmp_path: Path
) -> None:
    launches, _ = measured_on(Host(tmp_path / "host"), export(tuning))
    assert {launch["status"] for launch in launches} == {"ok"}
    files = (tmp_path / "host").glob("*/project/results/standin/tuning/round-*.json")
    rounds = [json.loads(file.read_text())["round"] for file in files]
    assert sum(not launch["prepared"] for launch in launches) == sum(
        bool(each["trials"]) for each in rounds
    )
    assert any(launch["prepared"] for launch in launches)
