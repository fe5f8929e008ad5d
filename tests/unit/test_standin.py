"""The stand-in engine of tests/workflow, started as a process and checked as vLLM would be."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.paths import ROOT
from tests.standin.serving import (
    KEY,
    PATIENCE_S,
    PROMPT,
    PYTHON,
    Server,
    launch,
    serving,
    write_model,
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(model, tmp_path_factory.mktemp("logs")) as running:
        yield running


def chat(server: Server, messages: list[dict[str, str]]) -> list[dict[str, Any]]:
    said = {"messages": messages, "max_completion_tokens": 40}
    return server.stream(path="/v1/chat/completions", **said)


def refusal(model: Path, tmp_path: Path, *arguments: str) -> str:
    log = tmp_path / "refused.log"
    process = launch(model, 1, log, arguments)
    assert process.wait(PATIENCE_S) == 1
    return log.read_text()


def test_it_knows_only_arguments_that_the_pinned_engine_has_too() -> None:
    recorded = ROOT / "workflow" / "envs" / "vllm-0.32.0.arguments.json"
    if not recorded.is_file():
        pytest.skip("the pinned engine's arguments are not recorded")
    real = json.loads(recorded.read_text())
    probe = ROOT / "src" / "servetune" / "engines/vllm/inside_probe.py"
    # As the real one's, the parser raises where there is nothing to serve on.
    asked = subprocess.run([PYTHON, probe, "--serve"], check=True, capture_output=True, text=True)
    ours = json.loads(asked.stdout)["arguments"]
    borrowed = {name: argument for name, argument in ours.items() if "standin" not in name}
    assert borrowed == {name: real.get(name) for name in borrowed}


def test_it_tells_its_version_as_a_distribution_named_vllm() -> None:
    ask = "import importlib.metadata, vllm; print(importlib.metadata.version('vllm'))"
    asked = subprocess.run([PYTHON, "-c", ask], check=True, capture_output=True, text=True)
    assert asked.stdout.strip() == "0.32.0+standin"


def test_it_names_its_model_to_who_has_the_key_and_to_nobody_else(server: Server) -> None:
    assert [m["id"] for m in server.http.get("/v1/models").json()["data"]] == ["it"]
    assert httpx.get(server.http.base_url.join("/v1/models"), trust_env=False).status_code == 401
    assert server.complete(model="other").status_code == 404


def test_a_prompt_is_text_or_token_ids_or_several_of_either(server: Server) -> None:
    for prompt, tokens in [("a b c", 3), ([5, 6, 7, 8], 4), (["a b", "c"], 3), ([[1], [2, 3]], 3)]:
        answer = server.complete(prompt=prompt, max_tokens=2).json()
        assert answer["usage"]["prompt_tokens"] == tokens
        assert answer["usage"]["completion_tokens"] == 2 * len(answer["choices"])


def test_a_stream_ends_with_its_usage_and_says_what_the_whole_answer_says(server: Server) -> None:
    chunks = server.stream(max_tokens=12)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 12
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * 11 + ["length"]
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1])
    assert text == server.complete(max_tokens=12).json()["choices"][0]["text"]


def test_generation_ends_by_itself_unless_told_to_ignore_that(server: Server) -> None:
    ended = server.complete(max_tokens=100, ignore_eos=False).json()
    assert ended["choices"][0]["finish_reason"] == "stop"
    assert ended["usage"]["completion_tokens"] < 100
    assert server.complete(max_tokens=100).json()["usage"]["completion_tokens"] == 100


def test_what_does_not_fit_the_context_is_refused(server: Server) -> None:
    assert server.complete(max_tokens=5000).status_code == 400
    assert "maximum context length" in server.complete(max_tokens=4090).text


def test_a_repeated_prompt_hits_the_prefix_cache_until_that_is_reset(server: Server) -> None:
    def hits(**body: Any) -> float:
        before = server.counter("vllm:prefix_cache_hits_total", engine="0")
        server.complete(**body)
        return server.counter("vllm:prefix_cache_hits_total", engine="0") - before

    prompt = f"{PROMPT} once more"
    assert server.http.post("/reset_prefix_cache").json() == {"success": True}
    assert [hits(prompt=prompt), hits(prompt=prompt)] == [0, 96]
    server.http.post("/reset_prefix_cache")
    assert hits(prompt=prompt) == 0


def test_it_reports_its_resolved_configuration(server: Server) -> None:
    info = server.http.get("/server_info", params={"config_format": "json"}).json()
    assert info["vllm_config"]["scheduler_config"]["max_num_seqs"] == 128
    assert info["vllm_config"]["cache_config"]["kv_cache_size_tokens"] == 524288
    assert KEY not in json.dumps(info)
    assert server.counter("vllm:cache_config_info", kv_cache_size_tokens="524288") == 1
    line = "CPU KV cache size: 524,288 tokens, Maximum concurrency for 4,096 tokens per request"
    assert f"{line}: 128.00x" in server.log.read_text()


def test_requests_beyond_max_num_seqs_wait_for_their_first_token(
    model: Path, tmp_path: Path
) -> None:
    with serving(model, tmp_path, "--max-num-seqs", "2") as server:
        assert server.complete(prompt=6 * [PROMPT], max_tokens=20).status_code == 200
        # Two of the six after twenty steps of 2 ms, and two after forty.
        assert server.counter("vllm:request_queue_time_seconds_sum") > 0.1

    endless = ("--max-num-seqs", "2", "--standin-step-ms", "1e9")
    with ThreadPoolExecutor() as client, serving(model, tmp_path, *endless) as server:
        answer = client.submit(server.complete, prompt=6 * [PROMPT])
        while not server.counter("vllm:num_requests_running"):
            time.sleep(0.02)
        assert server.counter("vllm:num_requests_running") == 2
        assert server.counter("vllm:num_requests_waiting") == 4
        server.process.kill()
        assert isinstance(answer.exception(), httpx.TransportError)


def test_requests_that_outgrow_the_kv_cache_are_preempted_and_still_answered(
    model: Path, tmp_path: Path
) -> None:
    small = ("--num-gpu-blocks-override", "32", "--max-model-len", "400")
    with serving(model, tmp_path, *small) as server:
        answer = server.complete(prompt=4 * [PROMPT], max_tokens=100).json()
        assert answer["usage"]["completion_tokens"] == 4 * 100
        assert server.counter("vllm:num_preemptions_total") > 0


def test_speculation_gives_several_tokens_a_chunk_and_says_how_many_were_accepted(
    model: Path, tmp_path: Path
) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3, "synthetic_acceptance_length": 2.5}
    with serving(model, tmp_path, "--speculative-config", json.dumps(config)) as server:
        answers = [
            [chunk for chunk in server.stream(max_tokens=16) if chunk["choices"]] for _ in range(12)
        ]
        accepted = "vllm:spec_decode_num_accepted_tokens"
        drafts = server.counter("vllm:spec_decode_num_drafts_total")
        acceptance_length = 1 + server.counter(f"{accepted}_total") / drafts
        assert acceptance_length == pytest.approx(2.5, abs=0.5)
        positions = [server.counter(f"{accepted}_per_pos_total", position=str(p)) for p in range(3)]
        assert positions == sorted(positions, reverse=True)
        assert all(len(chunks) < 16 for chunks in answers)


def test_a_context_above_the_kv_cache_is_refused_in_vllms_words_unless_fp8_makes_room(
    model: Path, tmp_path: Path
) -> None:
    above = ("--max-model-len", "900000")
    log = refusal(model, tmp_path, *above)
    assert "To serve at least one request with the model's max seq len (900000)" in log
    assert "KV cache is needed, which is larger than the available KV cache memory" in log
    with serving(model, tmp_path, *above, "--kv-cache-dtype", "fp8") as server:
        assert server.counter("vllm:cache_config_info", kv_cache_size_tokens="1048576") == 1


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "config.json" in refusal(tmp_path / "absent", tmp_path)


def test_it_stops_at_sigterm_unless_its_fault_is_to_ignore_that(
    model: Path, tmp_path: Path
) -> None:
    with serving(model, tmp_path) as server:
        assert server.stop() == 0
    with serving(model, tmp_path, "--standin-fault", "ignore-sigterm") as server:
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert server.complete().status_code == 200


def test_faults_under_load_begin_after_as_many_requests_as_asked(
    model: Path, tmp_path: Path
) -> None:
    after = ("--standin-fault-after", "2")
    with serving(model, tmp_path, "--standin-fault", "fail-requests", *after) as server:
        assert [server.complete().status_code for _ in range(4)] == [200, 500, 200, 500]
    with serving(model, tmp_path, "--standin-fault", "die-under-load", *after) as server:
        assert [server.complete().status_code for _ in range(2)] == [200, 200]
        with pytest.raises(httpx.TransportError):
            server.complete()
        assert server.process.wait(PATIENCE_S) == 1
    with serving(model, tmp_path, "--standin-fault", "hang-under-load", *after) as server:
        assert [server.complete().status_code for _ in range(2)] == [200, 200]
        server.http.timeout = httpx.Timeout(PATIENCE_S, read=0.3)
        with pytest.raises(httpx.ReadTimeout):
            server.complete()
        with pytest.raises(httpx.ReadTimeout):
            server.http.get("/health")


def test_cached_tokens_are_told_only_where_they_are_asked_for(
    server: Server, model: Path, tmp_path: Path
) -> None:
    assert "prompt_tokens_details" not in server.complete().json()["usage"]
    with serving(model, tmp_path, "--enable-prompt-tokens-details") as telling:
        usages = [telling.complete().json()["usage"], telling.stream()[-1]["usage"]]
        assert [each["prompt_tokens_details"]["cached_tokens"] for each in usages] == [0, 96]


def test_a_chat_begins_with_its_role_and_its_history_hits_the_prefix_cache(
    model: Path, tmp_path: Path
) -> None:
    with serving(model, tmp_path, "--enable-prompt-tokens-details") as server:
        said = [{"role": "user", "content": PROMPT}]
        first = chat(server, said)
        assert first[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        answer = "".join(chunk["choices"][0]["delta"]["content"] for chunk in first[:-1])
        said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "more!"}]
        second = chat(server, said)
    known = first[-1]["usage"]["total_tokens"]
    assert second[-1]["usage"]["prompt_tokens"] > known
    assert second[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == known // 16 * 16


def test_with_the_fault_no_reset_its_prefix_cache_stays(model: Path, tmp_path: Path) -> None:
    with serving(model, tmp_path, "--standin-fault", "no-reset") as server:
        assert server.http.post("/reset_prefix_cache").status_code == 500
        assert server.complete().status_code == 200


def test_with_the_fault_wrong_name_it_serves_another_model(model: Path, tmp_path: Path) -> None:
    with serving(model, tmp_path, "--standin-fault", "wrong-name") as server:
        ids = [served["id"] for served in server.http.get("/v1/models").json()["data"]]
        assert ids == ["someone-else"]
