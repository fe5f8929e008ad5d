"""What people have, a command or a manifest, becomes a study that plans without an edit."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from servetune.cli import app
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from tests.paths import ROOT
from tests.project import Project

DATA = ROOT / "tests/data/commands"

# From the README and the docs of vLLM, its recipes, model cards, and KServe's samples.
DOCUMENTED = {
    "docs.vllm.ai, quickstart": "vllm serve Qwen/Qwen2.5-1.5B-Instruct",
    "docs.vllm.ai, using docker": """\
docker run --runtime nvidia --gpus all \\
    -v ~/.cache/huggingface:/root/.cache/huggingface \\
    --env "HF_TOKEN=$HF_TOKEN" \\
    -p 8000:8000 \\
    --ipc=host \\
    vllm/vllm-openai:latest \\
    --model Qwen/Qwen3-0.6B""",
    "recipes, GPT-OSS": """\
# the configuration below delivers additional speedups
export HSA_NO_SCRATCH_RECLAIM=1
vllm serve openai/gpt-oss-120b --tensor-parallel-size=8 --attention-backend ROCM_AITER_UNIFIED_ATTN\
 -cc.pass_config.fuse_rope_kvcache=True -cc.use_inductor_graph_partition=True\
 --gpu-memory-utilization 0.95 --block-size=64""",
    "recipes, Ring-1T": """\
vllm serve inclusionAI/Ring-1T-FP8 \\
  --trust-remote-code \\
  --tensor-parallel-size 8 \\
  --gpu-memory-utilization 0.97 \\
  --max-num-seqs 32 \\
  --kv-cache-dtype fp8 \\
  --compilation-config '{"use_inductor": false}' \\
  --served-model-name Ring-1T-FP8""",
    "docs.vllm.ai, speculative decoding": """\
vllm serve meta-llama/Meta-Llama-3-8B-Instruct \\
    --host 0.0.0.0 --port 8000 --seed 42 -tp 4 --max-model-len 2048 \\
    --speculative_config '{"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B",
        "num_speculative_tokens": 2, "draft_tensor_parallel_size": 1}'""",
    "docs.vllm.ai, vllm bench serve": """\
vllm bench serve \\
  --backend vllm \\
  --model NousResearch/Hermes-3-Llama-3.1-8B \\
  --endpoint /v1/completions \\
  --dataset-name random --random-input-len 512 --random-output-len 128 \\
  --num-prompts 100 --request-rate 5 --save-result""",
    "docs.vllm.ai, the module": (
        "VLLM_LOGGING_LEVEL=DEBUG python3 -m vllm.entrypoints.openai.api_server"
        " --model mistralai/Mistral-7B-v0.1 --dtype half -O3 --api-key token-abc123"
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def write(*words: str) -> Result:
    return CliRunner().invoke(app, ["from", *words, "--out", "studies/written.yaml"])


def planned(project: Project) -> Plan:
    return make_plan({**project.params, "study": "written"}, project.root)


def study_of(project: Project, *words: str) -> dict[str, Any]:
    """Write a study, plan it, and return it."""
    (project.root / "studies/written.yaml").unlink(missing_ok=True)
    result = write(*words)
    assert result.exit_code == 0, result.stderr
    assert planned(project).measurements
    return project.study("written")


def server_of(project: Project, command: str) -> dict[str, Any]:
    (variant,) = study_of(project, command)["variants"].values()
    server: dict[str, Any] = variant.get("server", {})
    return server


def error(*words: str) -> str:
    result = write(*words)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def test_the_page_plans_the_study_that_its_first_command_writes(project: Project) -> None:
    page = (ROOT / "docs/from.md").read_text()
    (command,) = re.findall(r'servetune from ("vllm serve .*")', page)
    (name,) = re.findall(r"servetune plan --study (\S+)", page)
    done = CliRunner().invoke(app, ["from", *shlex.split(command)])
    assert done.exit_code == 0, done.output
    assert (project.root / f"studies/{name}.yaml").is_file()


@pytest.mark.parametrize("command", DOCUMENTED.values(), ids=DOCUMENTED)
def test_a_documented_command_is_planned_without_an_edit(project: Project, command: str) -> None:
    study_of(project, command)


def test_arguments_keep_their_values_under_the_long_name(project: Project) -> None:
    assert server_of(
        project,
        "vllm serve a/b --tp 2 -pp=2 --max-model-len 32k --max_num_seqs 64 --enforce-eager"
        " --no-enable-prefix-caching --kv-cache-dtype fp8 --gpu-memory-utilization 0.9 -O2"
        " --compilation-config.mode 3 --compilation-config.pass_config.fuse_norm_quant true"
        """ --hf-overrides '{"max_position_embeddings": 8192}' --max-num-batched 8192""",
    ) == {
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 2,
        "max_model_len": "32k",
        "max_num_seqs": 64,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "kv_cache_dtype": "fp8",
        "gpu_memory_utilization": 0.9,
        "optimization_level": 2,
        "compilation_config": {"mode": 3, "pass_config": {"fuse_norm_quant": True}},
        "hf_overrides": {"max_position_embeddings": 8192},
        "max_num_batched_tokens": 8192,
    }


def test_what_servetune_owns_is_named_and_dropped(project: Project) -> None:
    result = write(
        "vllm serve a/b --host 0.0.0.0 --port=8001 --served-model-name m --uvicorn-log-level info"
        " --disable-log-requests --disable-log-stats"
    )
    assert result.exit_code == 0
    for option in (
        "host",
        "port",
        "served-model-name",
        "disable-log-requests",
        "disable-log-stats",
    ):
        assert f"- --{option}: " in result.stdout
    server = project.study("written")["variants"]["b"]["server"]
    assert server == {"uvicorn_log_level": "info"}


SECRET = "hf_" + "a1B2" * 9


@pytest.mark.parametrize(
    "command",
    [
        f"HF_TOKEN={SECRET} vllm serve a/b",
        f"export HF_TOKEN={SECRET}\nvllm serve a/b",
        f"vllm serve a/b --hf-token {SECRET}",
        f"docker run -e HF_TOKEN={SECRET} vllm/vllm-openai:latest --model a/b",
        f"docker run --env=HUGGING_FACE_HUB_TOKEN={SECRET} vllm/vllm-openai a/b",
        "docker run -e HF_TOKEN vllm/vllm-openai:latest --model a/b",
    ],
)
def test_a_credential_becomes_the_name_of_a_variable(project: Project, command: str) -> None:
    result = write(command)
    assert result.exit_code == 0, result.stderr
    text = (project.root / "studies/written.yaml").read_text()
    assert SECRET not in text + result.output
    assert project.study("written")["variants"]["b"]["environment_from"] == ["HF_TOKEN"]
    assert planned(project).sessions


@pytest.mark.parametrize(
    "command",
    [
        f"vllm serve a/b --api-key {SECRET}",
        f"VLLM_API_KEY={SECRET} vllm serve a/b",
        f"sshpass -p {SECRET} vllm serve a/b",
    ],
)
def test_a_server_s_own_key_is_dropped(project: Project, command: str) -> None:
    result = write(command)
    text = (project.root / "studies/written.yaml").read_text()
    assert result.exit_code == 0 and SECRET not in text + result.output


@pytest.mark.parametrize(
    "command",
    [
        f"""vllm serve a/b --hf-overrides '{{"token": "{SECRET}"}}'""",
        f"OTHER={SECRET} vllm serve a/b",
        f"vllm serve a/b --otlp-traces-endpoint https://user:{SECRET}@example.org",
    ],
)
def test_a_secret_anywhere_else_is_refused_without_being_shown(
    project: Project, command: str
) -> None:
    line = error(command)
    assert "looks like a secret" in line and SECRET not in line
    assert not (project.root / "studies/written.yaml").exists()


def test_environment_and_what_stands_before_a_command_are_read(project: Project) -> None:
    study = study_of(
        project,
        "export VLLM_USE_FLASHINFER_SAMPLER=0\nTP=4\n"
        "CUDA_VISIBLE_DEVICES=0,1,2,3 nohup vllm serve a/b --tensor-parallel-size $TP"
        " > server.log 2>&1 &",
    )
    variant = study["variants"]["b"]
    assert variant["server"] == {"tensor_parallel_size": 4}
    assert variant["environment"] == {
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }


def test_the_tag_of_an_image_is_the_version(project: Project) -> None:
    study = study_of(project, "podman run --name vllm -it vllm/vllm-openai:v0.26.0 --model a/b")
    assert study["engine"] == {"vllm": "0.26.0"}


@pytest.mark.parametrize(
    ("version", "engine"), [("0.30.0", {"vllm": "0.30.0"}), ("0.32.0", "vllm-cpu")]
)
def test_a_version_on_a_cpu_is_installed_unless_it_is_the_pinned_one(
    project: Project, version: str, engine: Any
) -> None:
    study = study_of(project, "vllm serve a/b", "--hardware", "cpu", "--vllm", version)
    assert (study["hardware"], study["engine"]) == ("cpu", engine)


def test_a_shell_inside_a_container_is_read(project: Project) -> None:
    command = """docker run vllm/vllm-openai:latest bash -c "vllm serve a/b --max-num-seqs 8" """
    assert server_of(project, command) == {"max_num_seqs": 8}


def test_a_draft_and_adapters_are_models_of_the_study(project: Project) -> None:
    study = study_of(
        project,
        """vllm serve a/b --speculative-config.method eagle3 --speculative-config.model c/draft\
 --speculative-config.num_speculative_tokens 3 --enable-lora --lora-modules sql=d/sql-lora""",
    )
    assert {source["repo"] for source in study["models"].values()} == {
        "a/b",
        "c/draft",
        "d/sql-lora",
    }
    assert study["variants"]["b"]["speculative"]["model"] == "draft"
    assert study["variants"]["b"]["adapters"] == {"sql": "sql-lora"}


def test_a_config_file_is_read_and_the_command_wins(project: Project) -> None:
    config = {"model": "a/b", "max-num-seqs": 8, "tensor-parallel-size": 2, "port": 8001}
    (project.root / "serve.yaml").write_text(yaml.dump(config))
    assert server_of(project, "serve.yaml") == {"max_num_seqs": 8, "tensor_parallel_size": 2}
    both = server_of(project, "vllm serve --config serve.yaml --max-num-seqs 16")
    assert both == {"max_num_seqs": 16, "tensor_parallel_size": 2}


COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.26.0
    environment: [VLLM_LOGGING_LEVEL=DEBUG, HF_TOKEN]
    ports: ["8000:8000"]
    command: >
      --model Qwen/Qwen3-8B
      --max-model-len 8192
      --port 8000
  ui: {image: ghcr.io/open-webui/open-webui:main}
"""


def test_a_compose_file_is_read(project: Project) -> None:
    (project.root / "compose.yaml").write_text(COMPOSE)
    study = study_of(project, "compose.yaml")
    assert study["engine"] == {"vllm": "0.26.0"}
    assert study["variants"] == {
        "vllm": {
            "model": "qwen3-8b",
            "server": {"max_model_len": 8192},
            "environment": {"VLLM_LOGGING_LEVEL": "DEBUG"},
            "environment_from": ["HF_TOKEN"],
        }
    }


def test_manifests_of_kserve_are_read(project: Project) -> None:
    study = study_of(project, str(DATA / "kserve-cpu.yaml"))
    assert (study["hardware"], study["engine"]) == ("cpu", {"vllm": "0.23.0"})
    assert study["models"]["opt-125m"]["repo"] == "facebook/opt-125m"
    tools = study_of(project, str(DATA / "kserve-tools.yaml"))["variants"]
    assert tools["qwen3-coder-tool-calling"]["server"]["tool_call_parser"] == "qwen3_coder"
    assert tools["qwen3-coder-tool-calling"]["environment_from"] == ["HF_TOKEN"]


INFERENCE_SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: huggingface-llama3}
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama3, --max-model-len=4096]
      storageUri: hf://meta-llama/meta-llama-3-8b-instruct
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: mistral-7b}
spec:
  template:
    spec:
      containers:
        - name: mistral-7b
          image: vllm/vllm-openai:latest
          command: ["/bin/sh", "-c"]
          args: ["vllm serve mistralai/Mistral-7B-Instruct-v0.3 --enable-chunked-prefill"]
          env:
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: hf-token-secret, key: token}}
"""


def test_an_inference_service_and_a_deployment_are_read(project: Project) -> None:
    (project.root / "kserve.yaml").write_text(INFERENCE_SERVICE)
    study = study_of(project, "kserve.yaml")
    assert study["variants"]["huggingface-llama3"]["server"] == {"max_model_len": 4096}
    (project.root / "deployment.yaml").write_text(DEPLOYMENT)
    (variant,) = study_of(project, "deployment.yaml")["variants"].values()
    assert variant["server"] == {"enable_chunked_prefill": True}
    assert variant["environment_from"] == ["HF_TOKEN"]


def test_vllm_s_serving_tests_are_variants_with_their_own_loads(project: Project) -> None:
    result = write(str(DATA / "serving-tests.json"))
    assert "serving_llama8B_tp1_sharegpt: left out: ./ShareGPT" in result.stdout
    study = study_of(project, str(DATA / "serving-tests.json"))
    small, large = study["variants"].values()
    assert list(study["variants"]) == ["llama-3-1-8b-instruct", "llama-3-3-70b-instruct"]
    assert list(study["workloads"]) == ["random-128-128", "random-2048-128"]
    assert "workloads" not in small
    assert large["workloads"] == ["random-128-128"]
    assert large["server"]["enable_prefix_caching"] is False
    points = study["workloads"]["random-2048-128"]["load_points"]
    assert [point["concurrency"] for point in points] == [12, 16, 24, 32, 64, 128, 200]


def test_of_several_commands_the_first_is_said_to_be_the_baseline(project: Project) -> None:
    one = "vllm serve Qwen/Qwen3-0.6B --max-num-seqs 8"
    assert "baseline:" not in write(one).stdout
    (project.root / "studies/written.yaml").unlink()
    (project.root / "serve.sh").write_text(f"{one}\nvllm serve Qwen/Qwen3-8B\n")
    told = write("serve.sh").stdout
    study = project.study("written")
    assert len(study["variants"]) == 2
    assert f"- baseline: {study['baseline']}, as it comes first" in told


def test_a_load_of_vllm_bench_serve_is_a_workload(project: Project) -> None:
    study = study_of(
        project,
        "vllm serve a/b\nvllm bench serve --model a/b --dataset-name random --random-input-len 1000"
        " --random-output-len 100 --random-range-ratio 0.2 --random-prefix-len 50 --num-prompts 300"
        " --max-concurrency 16 --goodput ttft:500 tpot:50 --temperature 0.7 --ignore-eos",
    )
    (dataset,) = study["datasets"].values()
    assert dataset == {
        "kind": "random",
        "requests": 300,
        "input_tokens": {"min": 800, "max": 1200},
        "output_tokens": {"min": 80, "max": 120},
        "shared_prefix": {"count": 1, "tokens": 50},
    }
    (workload,) = study["workloads"].values()
    assert workload["load_points"] == [{"concurrency": 16, "requests": 300}]
    assert workload["slo"] == {"goodput_ratio": 0.95, "ttft_ms": 500, "tpot_ms": 50}
    assert workload["sampling"] == {"temperature": 0.7}


def test_a_load_on_a_server_elsewhere_is_an_endpoint(project: Project) -> None:
    study = study_of(
        project,
        "vllm bench serve --base-url https://llm.example.org --model granite --dataset-name random"
        f" --num-prompts 20 --request-rate 2 --header Authorization='Bearer {SECRET}'",
    )
    endpoint = study["variants"]["granite"]["endpoint"]
    assert endpoint == {
        "url": "https://llm.example.org/v1",
        "model": "granite",
        "key_env": "OPENAI_API_KEY",
        "limits": {"requests": 30},
    }
    assert SECRET not in (project.root / "studies/written.yaml").read_text()


def test_headers_of_a_load_become_names_of_variables(project: Project) -> None:
    study = study_of(
        project,
        "vllm bench serve --base-url https://llm.example.org --model granite --dataset-name random"
        f" --num-prompts 20 --header X-Api-Key={SECRET}",
    )
    endpoint = study["variants"]["granite"]["endpoint"]
    assert endpoint["headers_env"] == {"X-Api-Key": "X_API_KEY"}
    assert SECRET not in (project.root / "studies/written.yaml").read_text()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("", "nothing is given"),
        (
            f"vllm bench serve --base-url https://llm.example.org/v1?key={SECRET} --model granite",
            "has credentials or a query",
        ),
        (
            f"vllm bench serve --base-url https://me:{SECRET}@llm.example.org --model granite",
            "has credentials or a query",
        ),
        ("ls -la", "holds no server of vLLM"),
        ("vllm serve", "no model in the command"),
        ("vllm serve a/b --tensor-paralel-size 2", "did you mean tensor_parallel_size?"),
        ("vllm serve a/b --max-num-seqs 'x", "check its quotes"),
        ("vllm serve $MODEL", "what is $MODEL?"),
        ("vllm serve a/b --enforce-eager c/d", "belongs to no argument"),
        ("vllm serve a/b --speculative-config fast", "expected JSON"),
        ("vllm serve s3://bucket/model", "expected a repository of the hub"),
        ("missing.yaml", "missing.yaml: no such file"),
        ("vllm bench serve --model a/b --dataset-name hf", "expected random, sharegpt or custom"),
        ("vllm bench serve --model a/b --dataset-name random --num-prompts 0", "from 1 on"),
        ("vllm bench serve --model a/b --request-rate fast", "--request-rate: expected a number"),
        ("vllm bench serve --model a/b --burstiness=-1", "--burstiness: expected a number"),
    ],
)
def test_what_is_no_study_is_one_line(project: Project, word: str, expected: str) -> None:
    assert expected in error(word)


@pytest.mark.parametrize("name", ["kserve-cpu.yaml", "serving-tests.json"])
def test_a_file_cut_anywhere_is_one_line_or_a_study(project: Project, name: str) -> None:
    content = (DATA / name).read_text()
    for length in range(0, len(content), 37):
        (project.root / name).write_text(content[:length])
        result = write(name)
        assert result.exit_code in (0, 2), result.exception
        (project.root / "studies/written.yaml").unlink(missing_ok=True)


def test_a_study_that_is_there_is_not_replaced(project: Project) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["from", "vllm serve a/b", "--name", "quickstart"]).exit_code == 2
    assert (
        "is there already"
        in runner.invoke(app, ["from", "vllm serve a/b", "--name", "quickstart"]).stderr
    )
    assert "tiny" in (project.root / "studies/quickstart.yaml").read_text()


def test_hardware_and_version_may_be_said(project: Project) -> None:
    study = study_of(project, "vllm serve a/b", "--hardware", "nvidia-h200", "--vllm", "0.26.0")
    assert (study["hardware"], study["engine"]) == ("nvidia-h200", {"vllm": "0.26.0"})
    assert json.dumps(study)
