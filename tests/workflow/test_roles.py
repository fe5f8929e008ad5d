"""A prefill and a decode pool behind a real gateway, measured as a whole."""

from pathlib import Path
from typing import Any

import pytest

from tests.standin.serving import write_tokenizer
from tests.workflow.test_fleet import gateway, with_router
from tests.workspace import Workspace, make_workspace

CONNECTOR = {
    "kv_connector": "ExampleConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"shared_storage_path": "{launch_folder}/kv"},
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("roles") / "w", with_router(engine_cache))
    study = made.study
    study["variants"] = {
        "split": {
            "model": "standin",
            "server": {"kv_transfer_config": CONNECTOR},
            "roles": {"prefill": {"server": {"max_num_seqs": 4}}, "decode": {"replicas": 2}},
            "gateway": gateway("round_robin"),
        },
    }
    study["baseline"] = "split"
    study["workloads"]["random"] |= {
        "load_points": [{"concurrency": 4, "requests": 16}],
        "prompt_salt": True,
    }
    made.write_study(study)
    write_tokenizer(made.root / "model")
    made.first_output = made.measure()
    return made


def record_of(measured: Workspace) -> dict[str, Any]:
    (record,) = measured.records().values()
    return record


def launch_of(measured: Workspace) -> dict[str, Any]:
    (session,) = measured.sessions()
    (launch,) = session["launches"]
    found: dict[str, Any] = launch
    return found


def test_requests_are_counted_once_though_two_pools_see_them(measured: Workspace) -> None:
    record = record_of(measured)
    assert record["status"] == "ok", record["reason"]
    assert record["card"]["server_requests_ratio"] == pytest.approx(1)
    prefill, *decode = record["fleet"]["replicas"]
    sent = record["metrics"]["requests"]
    assert prefill["requests"] == sent == sum(one["requests"] for one in decode)
    assert prefill["output_tokens"] == sent
    assert all(one["output_tokens"] > one["requests"] for one in decode)


def test_each_server_has_its_role_and_its_arguments(measured: Workspace) -> None:
    launch = launch_of(measured)
    assert [one["role"] for one in launch["replicas"]] == ["prefill", "decode", "decode"]
    seqs = [
        one["command"][one["command"].index("--max-num-seqs") + 1] for one in launch["replicas"]
    ]
    assert seqs == ["4", "8", "8"]
    command = launch["gateway_command"]
    assert "--vllm-pd-disaggregation" in command and command.count("--decode") == 2


def test_the_key_of_the_launch_is_in_no_file(measured: Workspace) -> None:
    """The gateway gets it by a variable, and only to ask servers of the launch."""
    assert "OPENAI_API_KEY" not in str(launch_of(measured))


def test_servers_share_a_folder_of_the_launch_that_is_gone_after_it(measured: Workspace) -> None:
    paths = set()
    for replica in launch_of(measured)["replicas"]:
        config = replica["command"][replica["command"].index("--kv-transfer-config") + 1]
        paths.add(config.partition("shared_storage_path")[2])
    assert len(paths) == 1 and "launch_folder" not in paths.pop()
    assert not list((measured.root / ".servetune/launches").glob("*"))
