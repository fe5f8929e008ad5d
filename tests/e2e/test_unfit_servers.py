"""Servers that are unfit on purpose, on real vLLM: the report says how.

After test_quickstart, to whose clone they are added.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.e2e.clone import Clone

pytestmark = pytest.mark.e2e


def double_scales(checkpoint: Path, out: Path) -> None:
    """Copy a w8a8 checkpoint, and double the scale of every other channel of its weights."""
    shutil.copytree(checkpoint, out)
    (out / "servetune.json").unlink()
    file = out / "model.safetensors"
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[:8], "little")
    for name, told in json.loads(content[8 : 8 + length]).items():
        if name.endswith("weight_scale"):
            assert told["dtype"] == "BF16"
            begin, end = (8 + length + offset for offset in told["data_offsets"])
            scales = np.frombuffer(content[begin:end], "<u2").copy()
            # One more in the exponent of a bfloat16, which is above its seven bits of mantissa.
            scales[::2] += 1 << 7
            content[begin:end] = scales.tobytes()
    file.write_bytes(content)


@pytest.fixture(scope="module")
def clone(quickstart: Clone) -> Iterator[Clone]:
    """The quickstart with three more variants, of which only these are measured."""
    (w8a8,) = (quickstart.root / "data/models").glob("tiny-w8a8-*")
    double_scales(w8a8, quickstart.root / "broken")
    declared, study = quickstart.study(), quickstart.study()
    text = study["workloads"]["text"]
    for variant in study["variants"].values():
        variant["workloads"] = list(study["workloads"])
    study["workloads"]["eight"] = {**text, "load_points": [{"concurrency": 8, "requests": 64}]}
    study["models"]["broken"] = {"source": "path", "path": "broken"}
    # 640 tokens, for eight requests of about 120.
    small = {"num_gpu_blocks_override": 20, "block_size": 32, "max_model_len": 512}
    study["variants"] |= {
        "broken": {"model": "broken", "workloads": ["open"]},
        "small-kv": {"model": "tiny", "server": small, "workloads": ["eight"]},
        "too-long": {
            "model": "tiny",
            "server": {"max_model_len": 10_000_000},
            "environment": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
            "workloads": ["open"],
        },
    }
    quickstart.write_study(study)
    quickstart.edit_params(variants="all", max_num_seqs=None)
    launches = quickstart.launches()
    print(quickstart.measure())
    assert quickstart.launches() == launches + 3
    yield quickstart
    quickstart.write_study(declared)
    quickstart.measure()
    assert quickstart.launches() == launches + 3


def rows(clone: Clone, variant: str) -> pd.DataFrame:
    table = clone.table()
    return table[table["variant"] == variant]


def test_a_broken_quantization_fails_the_bounds_of_quality(clone: Clone) -> None:
    quality = pd.read_parquet(clone.root / "results/quickstart/quality.parquet")
    found = quality.set_index("variant").loc["broken"]
    assert (found["status"], found["verdict"]) == ("ok", "fails"), found.to_string()
    assert found["perplexity_ratio"] > 1.1
    for report in ("summary.html", "summary.md"):
        assert "broken fails the bounds of quality" in (clone.root / "reports" / report).read_text()


def test_a_kv_cache_made_too_small_is_told_with_its_preemptions(clone: Clone) -> None:
    found = clone.findings("small-kv", "eight", "c8")
    (seen,) = rows(clone, "small-kv").to_dict("records")
    assert seen["preemptions"] > 0
    evidence = dict(found["kv-bound"].evidence)
    assert evidence["preemptions"] == f"{seen['preemptions']:,.0f}"
    assert evidence["KV cache"] == "640 tokens"
    assert "throttled-by-max-num-seqs" not in found
    page = (clone.root / "reports/summary.html").read_text()
    assert "The KV cache is too small for this load." in page


def test_a_context_beyond_the_kv_cache_is_a_row_that_says_why(clone: Clone) -> None:
    assert set(rows(clone, "bf16")["status"]) == {"ok"}
    failed = rows(clone, "too-long")
    assert set(failed["status"]) == {"failed"}
    for reason in failed["reason"]:
        assert "max seq len" in reason and "KV cache" in reason
    assert "max seq len" in (clone.root / "reports/summary.html").read_text()
