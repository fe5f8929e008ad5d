"""Measuring on a host that has a bundle, an engine and a few packages, and nothing else."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT
from tests.workspace import PATIENCE_S, Workspace, make_workspace

ENGINE = str(ROOT / "tests/standin/python")
PROSE = {"kind": "text", "requests": 4, "input_words": 40, "output_tokens": 4}
LOOPBACK_ALONE = (
    "import fcntl, os, socket, struct, sys;"
    "up = struct.pack('16sh14x', b'lo', 0x41);"
    "fcntl.ioctl(socket.socket(), 0x8914, up);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Turns on 127.0.0.1 in a network namespace that holds nothing else, then runs a command."""


def without_network() -> list[str]:
    """Return the words that run a command without network, where the kernel lets this user."""
    words = [
        str(shutil.which("unshare")),
        "--user",
        "--map-root-user",
        "--net",
        sys.executable,
        "-c",
        LOOPBACK_ALONE,
    ]
    tried = subprocess.run([*words, "/bin/true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else []


class Host:
    """An empty folder without network, Git and Snakemake, where this project cannot be used."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.isolation = without_network()
        tools = root / "bin"
        tools.mkdir(parents=True)
        # What the stand-in's launcher needs, and no more.
        (tools / "dirname").symlink_to(str(shutil.which("dirname")))
        elsewhere = root / "elsewhere/servetune"
        elsewhere.mkdir(parents=True)
        (elsewhere / "__init__.py").write_text("raise ImportError('not the code of the bundle')")
        self.environment = {
            "PATH": str(tools),
            "PYTHONPATH": str(elsewhere.parent),
            "STANDIN_PYTHON": sys.executable,
            "SERVETUNE_LOCKS": str(root / "locks"),
        }

    def run(self, bundle: Path, *more: str) -> subprocess.CompletedProcess[str]:
        words = [str(bundle), "--python", ENGINE, "--results", "results.tar.gz", *more]
        return subprocess.run(
            [*self.isolation, sys.executable, *words],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def measure(self, bundle: Path, *more: str) -> Path:
        done = self.run(bundle, *more)
        assert done.returncode == 0, done.stderr
        return self.root / "results.tar.gz"


def export(workspace: Workspace) -> Path:
    workspace.check("servetune", "bundle", "export")
    return workspace.root / "bundles/standin.pyz"


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path
) -> tuple[Workspace, Path]:
    """A workspace in which nothing was measured, and the bundle of its study."""
    made = make_workspace(tmp_path_factory.mktemp("exported") / "workspace", engine_cache)
    return made, export(made)


def test_a_bundle_is_measured_elsewhere_and_nothing_is_left_to_measure(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    workspace, bundle = exported
    results = Host(tmp_path / "host").measure(bundle)
    told = workspace.check("servetune", "bundle", "import", str(results))
    assert "4 load points imported" in told and "0 load points still missing" in told
    sessions = [str(p) for p in (workspace.root / "results/standin/sessions").glob("*.json")]
    assert len(sessions) == 2
    relative = [str(Path(path).relative_to(workspace.root)) for path in sessions]
    assert "Nothing to be done" in workspace.check("snakemake", "-n", "--cores", "1", *relative)
    assert "rule measure_session" not in workspace.dry_run()
    workspace.measure()
    assert "Nothing to be done" in workspace.dry_run()
    assert workspace.launches() == 2
    assert {record["status"] for record in workspace.records().values()} == {"ok"}
    for id in workspace.records():
        raw = workspace.root / "results/raw/standin" / id
        names = {"requests.parquet", "schedule.jsonl", "replies.jsonl"}
        assert {path.name for path in raw.iterdir()} >= names
    commit = workspace.check("git", "rev-parse", "HEAD").strip()
    assert {s["launches"][0]["git"]["commit"] for s in workspace.sessions()} == {commit}


def test_what_cannot_be_run_is_refused_before_anything_is_measured(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    host = Host(tmp_path / "host")
    (tmp_path / "damaged.pyz").write_bytes(_damaged(exported[1]))
    whole = exported[1].read_bytes()
    for name, size in {"almost": len(whole) - 1, "half": len(whole) // 2, "begun": 1000}.items():
        (tmp_path / f"{name}.pyz").write_bytes(whole[:size])
    (host.root / "file").write_text("")
    for bundle, words, said in (
        (exported[1], ["--results", "."], "--results .: a folder"),
        (exported[1], ["--results=file/r.tar.gz"], "file/r.tar.gz: cannot be written: File exists"),
        (exported[1], ["--stop-after=nan"], "--stop-after: nan: expected seconds"),
        (exported[1], ["--folder=file"], "file: the bundle cannot be unpacked there"),
        (tmp_path / "damaged.pyz", [], "damaged, copy it again"),
        # Without the zip archive's directory Python takes the file for source.
        *((tmp_path / f"{name}.pyz", [], "copy-it-again") for name in ("almost", "half", "begun")),
    ):
        done = host.run(bundle, *words)
        assert done.returncode and said in done.stderr.splitlines()[-1]
        assert "starting" not in done.stderr and "Traceback" not in done.stderr


def test_a_bundle_is_a_program_that_its_name_starts(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    words = [str(exported[1]), "--help"]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "--results FILE.tar.gz" in told


def _damaged(bundle: Path) -> bytes:
    """Return a bundle of which some bytes of its largest file are others."""
    with zipfile.ZipFile(bundle) as content:
        largest = max(content.infolist(), key=lambda info: info.compress_size)
    changed = bytearray(bundle.read_bytes())
    middle = largest.header_offset + largest.compress_size // 2
    for at in range(middle, middle + 100):
        changed[at] ^= 0x5A
    return bytes(changed)


def test_a_run_whose_time_is_up_goes_on_from_its_results_on_a_bare_host(
    workspace: Workspace, tmp_path: Path
) -> None:
    # An engine that is on the measuring host alone.
    workspace.write_study({**workspace.study, "engine": {"vllm": "0.32.0"}})
    bundle = export(workspace)
    none = Host(tmp_path / "first").measure(bundle, "--stop-after", "0")
    told = workspace.check("servetune", "bundle", "import", str(none))
    assert "0 load points imported" in told and "4 load points still missing" in told
    assert "nothing of this plan" in workspace.run("servetune", "report", "--partial").stderr

    half = Host(tmp_path / "second").measure(bundle)
    kept = drop_all_but_one(half)
    workspace.check("servetune", "bundle", "import", str(half))
    assert "still to come: 3 load points" in workspace.check("servetune", "report", "--partial")
    assert (workspace.root / "reports/summary.md").read_text().count("| pending |") == 3
    assert workspace.check("servetune", "show").count(" pending ") == 3
    done = Host(tmp_path / "third").measure(bundle, "--resume", str(half))
    workspace.check("servetune", "bundle", "import", str(done))
    records = workspace.records()
    assert len(records) == 4
    assert records[kept["measurement"]] == kept
    # The session that was cut had its second launch for what it still owed.
    assert records[kept["measurement"]]["launch"] == 1
    others = [r for r in records.values() if r["session"] == kept["session"] and r != kept]
    assert [r["launch"] for r in others] == [2]


def test_a_search_for_the_capacity_is_made_elsewhere_and_taken_probe_by_probe(
    workspace: Workspace, tmp_path: Path
) -> None:
    study = workspace.study
    study["server"]["enable_prefix_caching"] = False
    study["variants"] = {"plain": {"model": "standin"}}
    workload = study["workloads"]["random"]
    del workload["load_points"]
    workload["capacity"] = {
        "slo": {"loose": {"ttft_p90_ms": 2000}},
        "lowest": 5,
        "highest": 20,
        "probe_requests": 200,
    }
    workspace.write_study(study)
    workspace.commit("Search the capacity")
    results = Host(tmp_path / "host").measure(export(workspace))
    told = workspace.check("servetune", "bundle", "import", str(results))
    assert "0 load points still missing" in told
    assert "rule measure_session" not in workspace.dry_run()
    workspace.collect()
    assert workspace.metrics()["plain"]["random"]["capacity_rps_lower"] == 20
    assert workspace.launches() == 1


def drop_all_but_one(archive: Path) -> dict[str, Any]:
    """Make the results of a run that was killed after its first load point; returns its record."""
    folder = archive.parent / "unpacked"
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    records = [json.loads(p.read_text()) for p in folder.glob("results/standin/records/*.json")]
    first: dict[str, Any] = min(records, key=lambda r: (r["variant"] != "plain", r["started_at"]))
    shutil.rmtree(folder / "results/standin/sessions")
    for record in records:
        if record != first:
            id = record["measurement"]
            (folder / f"results/standin/records/{id}.json").unlink()
            shutil.rmtree(folder / "results/raw/standin" / id)
            if record["session"] != first["session"]:
                other = folder / "results/raw/standin" / record["session"]
                shutil.rmtree(other, ignore_errors=True)
    archive.unlink()
    with tarfile.open(archive, "w:gz") as content:
        for name in ("bundle.json", "results"):
            content.add(folder / name, name)
    return first


def test_only_what_is_owed_is_exported(measured: Workspace) -> None:
    done = measured.run("servetune", "bundle", "export")
    assert done.returncode == 2
    assert "everything is measured" in done.stderr
    study = measured.study
    study["workloads"]["random"]["load_points"].append({"concurrency": 2, "requests": 4})
    measured.write_study(study)
    assert "2 sessions, 2 load points" in measured.check("servetune", "bundle", "export")


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ({"vllm": "0.0.1"}, "has vllm 0.32.0+standin; expected 0.0.1"),
        (
            {"vllm": "0.32.0", "packages": ["kernels==1.0"]},
            "has no kernels; expected kernels==1.0",
        ),
    ],
)
def test_a_host_with_another_vllm_or_without_a_package_is_refused(
    workspace: Workspace, tmp_path: Path, engine: dict[str, Any], told: str
) -> None:
    workspace.write_study({**workspace.study, "engine": engine})
    host = Host(tmp_path / "host")
    done = host.run(export(workspace))
    assert done.returncode == 2
    assert told in done.stderr
    assert not (host.root / "results.tar.gz").exists()
    assert "Traceback" not in done.stderr


def test_an_engine_that_cannot_be_imported_is_refused_before_a_server_starts(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    (_, bundle), host = exported, Host(tmp_path / "host")
    broken = tmp_path / "broken"
    metadata = "vllm-0.32.0+standin.dist-info"
    shutil.copytree(ROOT / "tests/standin/site" / metadata, broken / metadata)
    (broken / "vllm").mkdir()
    (broken / "vllm/__init__.py").write_text(
        "raise ImportError('libcudart.so.13: cannot open shared object file')"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={broken}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = host.run(bundle, "--python", str(python))
    assert done.returncode == 2
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("servetune: ")]
    assert "libcudart.so.13: cannot open shared object file" in told
    assert "Traceback" not in done.stderr
    assert not (host.root / "results.tar.gz").exists()


def test_a_python_of_this_host_serves_the_version_that_a_study_names(workspace: Workspace) -> None:
    study = {**workspace.study, "engine": {"vllm": "0.32.0"}}
    study["variants"].pop("fp8-kv")
    workspace.write_study(study)
    python = str(ROOT / "tests/standin/python")
    workspace.check("servetune", "engine", "vllm==0.32.0", "--python", python)
    workspace.collect()
    assert len(workspace.records()) == 2


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_not_a_bundles_results_is_refused(workspace: Workspace, content: bytes) -> None:
    (workspace.root / "x.tar.gz").write_bytes(content)
    done = workspace.run("servetune", "bundle", "import", "x.tar.gz")
    assert done.returncode == 2
    assert "x.tar.gz: not the results of a bundle" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bundle_asks_for_quality_and_brings_the_answers_back(
    workspace: Workspace, tmp_path: Path
) -> None:
    study = workspace.study
    study["datasets"]["prose"] = PROSE
    study["quality"] = {"corpus": "prose", "max_perplexity_ratio": 1.02}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 8}]
    workspace.write_study(study)
    results = Host(tmp_path / "host").measure(export(workspace))
    told = workspace.check("servetune", "bundle", "import", str(results))
    assert "0 load points still missing" in told
    workspace.collect()
    assert workspace.launches() == 2
    assert workspace.metrics()["fp8-kv"]["quality"]["verdict"] == "passes"


def test_a_bundle_without_room_for_lm_eval_says_so(workspace: Workspace) -> None:
    study = workspace.study
    study["datasets"]["prose"] = PROSE
    study["quality"] = {"corpus": "prose", "lm_eval": {"tasks": ["arc_easy"]}}
    workspace.write_study(study)
    done = workspace.run("servetune", "bundle", "export")
    assert done.returncode == 2
    assert "quality.lm_eval: " in done.stderr
