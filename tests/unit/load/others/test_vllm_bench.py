"""`vllm bench serve`: its words and its result."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from servetune.load.generator import Destination, Reply
from servetune.load.others.vllm_bench import DRIVER
from tests.loads import load

TARGET = Destination("http://it", "it", Path("model"), Path("raw/schedule.jsonl"), Path("raw"))


def test_a_load_point_reads_as_vllms_own_command() -> None:
    told = load(
        rate_rps=4,
        requests=9,
        settle_requests=2,
        cooldown_requests=1,
        arrivals="gamma",
        burstiness=0.5,
        sampling={"temperature": 0.7, "top_p": 0.9, "top_k": -1},
    )
    words = " ".join(DRIVER.arguments(told, TARGET))
    assert "--backend openai --endpoint /v1/completions --base-url http://it" in words
    assert "--dataset-path raw/schedule.jsonl --num-prompts 12" in words
    assert "--temperature=0.7 --top-p=0.9 --top-k=-1 --request-rate 4.0 --burstiness 0.5" in words
    assert "--ignore-eos" in words and "--min-p" not in words and "--max-concurrency" not in words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"concurrency": 8}, ["--max-concurrency", "8"]),
        ({"rate_rps": math.inf}, ["--request-rate", "inf"]),
        ({"rate_rps": 2}, ["--request-rate", "2.0"]),
        (
            {"rate_rps": 2, "arrivals": "constant"},
            ["--request-rate", "2.0", "--burstiness", "inf"],
        ),
        (
            {"rate_rps": 2, "concurrency": 3},
            ["--max-concurrency", "3", "--request-rate", "2.0"],
        ),
    ],
)
def test_the_pace_is_said_in_vllms_words(values: dict[str, Any], words: list[str]) -> None:
    said = DRIVER.arguments(load(requests=9, **values), TARGET)
    assert said[-len(words) - 1 :] == ["--temperature=0.0", *words]


RESULT = {
    "errors": ["", "Traceback:\n  somewhere\nTimeoutError: too late\n"],
    "start_times": [12.0, 13.0],
    "input_lens": [7, 0],
    "output_lens": [3, 0],
    "ttfts": [0.5, 0.0],
    "itls": [[0.1, 0.1], []],
    "generated_texts": ["to and fro", ""],
}


def test_a_result_is_read_in_the_order_of_the_schedule(tmp_path: Path) -> None:
    (tmp_path / "vllm-bench.json").write_text(json.dumps(RESULT))
    assert DRIVER.read(tmp_path) == [
        Reply(
            scheduled=0,
            error=None,
            sent_s=12.0,
            input_tokens=7,
            output_tokens=3,
            ttft_s=0.5,
            e2e_s=0.5 + (0.1 + 0.1),
            itl_s=[0.1, 0.1],
            text="to and fro",
        ),
        Reply(scheduled=1, error="TimeoutError: too late", sent_s=13.0, text=""),
    ]


def test_a_result_that_lacks_a_request_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vllm-bench.json").write_text(json.dumps({**RESULT, "ttfts": [0.5]}))
    with pytest.raises(ValueError, match=r"shorter|longer"):
        DRIVER.read(tmp_path)
