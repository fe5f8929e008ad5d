"""Replicas behind a real gateway: how they are started, loaded, counted and told."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from servetune.engines.environments import build_engine, engine_id, site_packages
from tests.paths import GALLERY, ROOT
from tests.standin.serving import write_tokenizer
from tests.workflow.test_bundle import Host, export
from tests.workflow.test_gpus import with_gpus
from tests.workflow.test_kills import SNAKEMAKE, is_loading, wait_for
from tests.workspace import Workspace, make_workspace

ROUTER = "vllm-router"


def with_router(cache: Path) -> Path:
    """Return a cache that has the environment of the real gateway."""
    description = build_engine(ROUTER, ROOT)
    there = cache / "engines" / engine_id(ROUTER, ROOT) / description.name
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(description, there)
    return cache


def gateway(policy: str, **arguments: Any) -> dict[str, Any]:
    return {"kind": ROUTER, "policy": policy, "arguments": arguments}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("fleet") / "w", with_router(engine_cache))
    study = made.study
    study["variants"] = {
        "plain": {"model": "standin"},
        "one": {"model": "standin", "gateway": gateway("round_robin")},
        "two": {"model": "standin", "replicas": 2, "gateway": gateway("round_robin")},
        "sticky": {"model": "standin", "replicas": 2, "gateway": gateway("consistent_hash")},
        "by-prefix": {
            "model": "standin",
            "replicas": 2,
            "gateway": gateway("cache_aware"),
            "workloads": ["words"],
        },
    }
    for name in ("plain", "one", "two", "sticky"):
        study["variants"][name]["workloads"] = ["random"]
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 16}]
    study["workloads"]["words"] = {**study["workloads"]["random"], "dataset": "words"}
    study["datasets"]["words"] = {
        "kind": "text",
        "requests": 16,
        "input_words": 32,
        "output_tokens": 8,
    }
    made.write_study(study)
    write_tokenizer(made.root / "model")
    made.first_output = made.measure()
    return made


def record(measured: Workspace, variant: str) -> dict[str, Any]:
    (found,) = [each for each in measured.records().values() if each["variant"] == variant]
    return found


def launch(measured: Workspace, variant: str) -> dict[str, Any]:
    (found,) = [each for each in measured.sessions() if each["variant"] == variant]
    last: dict[str, Any] = found["launches"][-1]
    return last


def test_replicas_are_measured_as_one_target(measured: Workspace) -> None:
    for variant in ("plain", "one", "two", "sticky"):
        one = record(measured, variant)
        assert one["status"] == "ok", one["reason"]
        assert one["metrics"]["completed_requests"] == 16
        assert one["card"]["server_requests_ratio"] == 1.0
        assert one["card"]["server_output_ratio"] == 1.0
    assert "Nothing to be done" in measured.dry_run()


def test_each_replica_has_its_own_command_log_cores_and_counters(measured: Workspace) -> None:
    replicas = launch(measured, "two")["replicas"]
    assert len(replicas) == 2
    ports = [each["command"][each["command"].index("--port") + 1] for each in replicas]
    assert len(set(ports)) == 2
    (session,) = [each for each in measured.sessions() if each["variant"] == "two"]
    raw = measured.root / "results/raw/standin" / session["session"]
    for replica in replicas:
        assert (raw / replica["log"]).stat().st_size
        assert replica["cores"] and replica["server"]["kv_cache_tokens"]
    fleet = record(measured, "two")["fleet"]
    assert [each["requests"] for each in fleet["replicas"]] == [8, 8]
    assert sum(each["output_tokens"] for each in fleet["replicas"]) == 16 * 8


def test_a_fleet_has_the_kv_cache_of_all_its_replicas(measured: Workspace) -> None:
    one, two = (launch(measured, name)["server"]["kv_cache_tokens"] for name in ("one", "two"))
    assert two == 2 * one


def test_what_the_gateway_counted_is_recorded_by_replica(measured: Workspace) -> None:
    counted = record(measured, "two")["fleet"]["gateway"]
    assert counted["active_workers"] == 2
    assert counted["requests_total{route=/v1/completions}"] == 16
    for number in (1, 2):
        key = f"policy_decisions_total{{policy=round_robin,replica={number}}}"
        assert counted[key] == 8


def test_a_prefix_policy_whose_replicas_give_no_tokens_is_invalid_in_one_line(
    measured: Workspace,
) -> None:
    one = record(measured, "by-prefix")
    assert (one["status"], one["rule"]) == ("invalid", "policy-idle")
    assert one["reason"].startswith("16 of 16 decisions were by load alone (16 missing_tokens)")
    assert "\n" not in one["reason"] and "enable_scale_out: true" in one["reason"]


def test_variants_that_differ_in_their_gateways_alone_are_measured_on_the_same_servers(
    measured: Workspace,
) -> None:
    def servers(variant: str) -> Any:
        assert record(measured, variant)["servers"] == launch(measured, variant)["servers"]
        return record(measured, variant)["servers"]

    assert servers("two") == servers("sticky") == servers("by-prefix") is not None
    assert servers("plain") == servers("one") not in (None, servers("two"))
    commands = [
        [each["command"] for each in launch(measured, name)["replicas"]]
        for name in ("two", "sticky", "by-prefix")
    ]
    assert commands[0] == commands[1] == commands[2]
    logs = [*(measured.root / "results/raw/standin").glob("*/server-1-*.log")]
    # One server for two variants, two for three.
    assert len(logs) == 3


def test_caches_are_emptied_between_gateways(measured: Workspace) -> None:
    for variant in ("two", "sticky"):
        assert record(measured, variant)["card"]["prefix_cache_was_reset"] is True


def test_a_single_server_has_no_fleet(measured: Workspace) -> None:
    assert record(measured, "plain")["fleet"] is None
    assert launch(measured, "plain")["replicas"] is None


def test_a_gateway_before_one_server_is_measured_for_its_own_cost(measured: Workspace) -> None:
    assert len(record(measured, "one")["fleet"]["replicas"]) == 1


def test_no_command_holds_the_key_and_all_ports_are_on_loopback(measured: Workspace) -> None:
    words = launch(measured, "two")["gateway_command"]
    assert "--api-key" not in words
    hosts = [words[words.index(name) + 1] for name in ("--host", "--prometheus-host")]
    assert hosts == ["127.0.0.1"] * 2
    for replica in launch(measured, "two")["replicas"]:
        assert "127.0.0.1" in replica["command"] and "--api-key" not in replica["command"]


def test_telemetry_has_the_gauges_of_each_replica(measured: Workspace) -> None:
    import pandas as pd

    (session,) = [each for each in measured.sessions() if each["variant"] == "two"]
    raw = measured.root / "results/raw/standin" / session["session"]
    columns = set(pd.read_parquet(raw / "telemetry-1.parquet").columns)
    assert {"replica1_requests_running", "replica2_kv_cache_usage_ratio"} <= columns


def test_the_version_of_the_gateway_is_recorded(measured: Workspace) -> None:
    assert launch(measured, "two")["versions"][ROUTER] == "0.1.17"
    assert json.dumps(launch(measured, "plain")["versions"]).count(ROUTER) == 0


@pytest.fixture
def two_policies(tmp_path: Path, engine_cache: Path) -> Workspace:
    """Two policies that share a launch, whose third load stalls until it is ended from outside."""
    made = make_workspace(tmp_path / "w", with_router(engine_cache))
    study = made.study
    study["baseline"] = "two"
    study["variants"] = {
        name: {"model": "standin", "replicas": 2, "gateway": gateway(policy)}
        for name, policy in (("two", "round_robin"), ("sticky", "consistent_hash"))
    }
    study["workloads"]["random"] |= {
        "load_points": [{"concurrency": 4, "requests": 8}, {"concurrency": 2, "requests": 8}]
    }
    made.write_study(study)
    return made


def first_and_second(made: Workspace) -> tuple[str, str]:
    """Return the variants in the order of their turns."""
    sessions = json.loads(made.check("servetune", "plan", "--json"))["sessions"]
    first, second = sorted(sessions, key=lambda each: int(each["order"]))
    return first["variant"], second["variant"]


def test_a_gateway_that_dies_fails_its_load_point_and_nothing_else(
    two_policies: Workspace,
) -> None:
    made = two_policies
    study = made.study
    # Its first load lasts until its gateway is gone.
    study["server"]["standin_step_ms"] = 150
    made.write_study(study)
    started = subprocess.Popen(SNAKEMAKE, cwd=made.root, env=made.cold)
    wait_for(lambda: is_loading(made))
    (gateway_process,) = [
        process
        for process in psutil.process_iter(["cmdline", "cwd"])
        if process.info["cwd"] == str(made.root)
        and "vllm_router.launch_router" in (process.info["cmdline"] or [])
    ]
    gateway_process.kill()
    assert started.wait() == 0
    first, second = first_and_second(made)
    records = [each for each in made.records().values() if each["variant"] == first]
    assert sorted(each["status"] for each in records) == ["failed", "ok"]
    (failed,) = [each for each in records if each["status"] == "failed"]
    assert "gateway" in failed["reason"] and "ended under load" in failed["reason"]
    others = [each for each in made.records().values() if each["variant"] == second]
    assert [each["status"] for each in others] == ["ok", "ok"]
    assert len({each["servers"] for each in (*others, *records) if each["servers"]}) == 1


def test_a_run_that_was_killed_goes_on_with_the_turns_that_are_left(
    two_policies: Workspace,
) -> None:
    made = two_policies
    first, second = first_and_second(made)
    started = subprocess.Popen(SNAKEMAKE, cwd=made.root, env=made.cold, process_group=0)
    wait_for(lambda: len(made.records()) >= 3)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    kept = made.records()
    made.collect()
    after = made.records()
    assert len(after) == 4 and {id: after[id] for id in kept} == kept
    assert {each["status"] for each in after.values()} == {"ok"}
    servers = {id: each["servers"] for id, each in after.items()}
    of_first = {servers[id] for id, each in after.items() if each["variant"] == first}
    assert len(of_first) == 1
    resumed = {id for id in after if id not in kept}
    # What was left had servers of its own: a block of its own in the comparison.
    assert not of_first & {servers[id] for id in resumed}
    assert all(after[id]["variant"] == second for id in resumed)
    assert "Nothing to be done" in made.check(*SNAKEMAKE[:1], "-n", *SNAKEMAKE[1:])


def host_with_needs_of_the_router(folder: Path) -> Host:
    """A host with what the gateway imports, which comes with vLLM where that serves."""
    host = Host(folder)
    for package in site_packages(engine_id(ROUTER, ROOT)).iterdir():
        if not package.name.startswith(("vllm_router", "__")):
            (folder / "elsewhere" / package.name).symlink_to(package)
    return host


def test_a_bundle_carries_the_gateway_and_measures_with_it_on_a_bare_host(
    tmp_path: Path, engine_cache: Path
) -> None:
    made = make_workspace(tmp_path / "w", with_router(engine_cache))
    study = made.study
    study["baseline"] = "two"
    study["variants"] = {
        "two": {"model": "standin", "replicas": 2, "gateway": gateway("round_robin")}
    }
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 16}]
    made.write_study(study)
    bundle = export(made)
    host = host_with_needs_of_the_router(tmp_path / "host")
    results = host.measure(bundle)
    made.check("servetune", "bundle", "import", str(results))
    (one,) = made.records().values()
    assert one["status"] == "ok", one["reason"]
    assert [each["requests"] for each in one["fleet"]["replicas"]] == [8, 8]


def test_a_host_that_cannot_run_the_gateway_is_told_why_in_a_line(
    tmp_path: Path, engine_cache: Path
) -> None:
    made = make_workspace(tmp_path / "w", with_router(engine_cache))
    study = made.study
    study["variants"] = {"plain": {"model": "standin", "gateway": gateway("round_robin")}}
    made.write_study(study)
    host = Host(tmp_path / "host")
    (tmp_path / "host/elsewhere/setproctitle.py").write_text("raise ImportError('none here')")
    done = host.run(export(made))
    assert done.returncode == 2
    assert "cannot run vllm-router 0.1.17: ImportError: none here" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("study_name", "count"), [("fleet-two-gpus", 2), ("fleet-four-gpus", 4)])
def test_a_study_of_gpus_runs_from_its_bundle_a_gpu_a_replica(
    tmp_path: Path, engine_cache: Path, study_name: str, count: int
) -> None:
    made = make_workspace(tmp_path / "w", with_router(engine_cache))
    with_gpus(made, count)
    study = made.study
    declared = yaml.safe_load((GALLERY / f"studies/{study_name}.yaml").read_text())
    policies = ("round-robin", "consistent-hash")
    study["baseline"] = declared["baseline"]
    study["variants"] = {
        name: {**declared["variants"][name], "model": "standin"} for name in policies
    }
    (dataset, *_) = declared["datasets"].values()
    study["datasets"] = {"chats": {**dataset, "conversations": 6, "turns": 4}}
    study["datasets"]["chats"] |= {"starters": {"count": 2, "words": 9}, "output_tokens": 4}
    study["datasets"]["chats"] |= {"follow_up_words": 5}
    study["workloads"] = {
        "chats": {"dataset": "chats", "load_points": [{"rate_rps": 50, "requests": 24}]}
    }
    made.write_study(study)
    bundle = export(made)
    host = host_with_needs_of_the_router(tmp_path / "host")
    paths = [made.environment["PYTHONPATH"], host.environment["PYTHONPATH"]]
    host.environment |= {"PYTHONPATH": os.pathsep.join(paths), "STANDIN_GPUS": str(count)}
    made.check("servetune", "bundle", "import", str(host.measure(bundle)))
    for policy in policies:
        one = record(made, policy)
        assert one["status"] == "ok", one["reason"]
        assert one["device"] == "+".join(f"GPU-{index:04}" for index in range(count))
        replicas = launch(made, policy)["replicas"]
        assert [each["devices"] for each in replicas] == [str(index) for index in range(count)]
    assert len({record(made, policy)["servers"] for policy in policies}) == 1
    served = [each["requests"] for each in record(made, "consistent-hash")["fleet"]["replicas"]]
    # Each conversation has four turns, and stays with its replica.
    assert sum(served) == 24 and all(count % 4 == 0 for count in served)
