"""Servers that are unfit on purpose, on real vLLM: the report says how."""

import pandas as pd
import pytest

from tests.e2e.clone import Clone

pytestmark = pytest.mark.e2e


def rows(quickstart: Clone, variant: str) -> pd.DataFrame:
    table = quickstart.table()
    return table[table["variant"] == variant]


def test_a_broken_quantization_fails_the_bounds_of_quality(quickstart: Clone) -> None:
    quality = pd.read_parquet(quickstart.root / "results/quickstart/quality.parquet")
    found = quality.set_index("variant").loc["broken"]
    assert (found["status"], found["verdict"]) == ("ok", "fails"), found.to_string()
    assert found["perplexity_ratio"] > 1.1
    for report in ("summary.html", "summary.md"):
        assert (
            "broken fails the bounds of quality"
            in (quickstart.root / "reports" / report).read_text()
        )


def test_a_kv_cache_made_too_small_is_told_with_its_preemptions(quickstart: Clone) -> None:
    found = quickstart.findings("small-kv", "eight", "c8")
    (seen,) = rows(quickstart, "small-kv").to_dict("records")
    assert seen["preemptions"] > 0
    evidence = dict(found["kv-bound"].evidence)
    assert evidence["preemptions"] == f"{seen['preemptions']:,.0f}"
    assert evidence["KV cache"] == "640 tokens"
    assert "throttled-by-max-num-seqs" not in found
    page = (quickstart.root / "reports/summary.html").read_text()
    assert "The KV cache is too small for this load." in page


def test_a_context_beyond_the_kv_cache_is_a_row_that_says_why(quickstart: Clone) -> None:
    assert set(rows(quickstart, "bf16")["status"]) == {"ok"}
    failed = rows(quickstart, "too-long")
    assert set(failed["status"]) == {"failed"}
    for reason in failed["reason"]:
        assert "max seq len" in reason and "KV cache" in reason
    assert "max seq len" in (quickstart.root / "reports/summary.html").read_text()


def test_a_server_with_too_few_sequences_is_told_to_be_throttled_with_its_queue_time(
    quickstart: Clone,
) -> None:
    found = quickstart.findings("throttled", "eight", "c8")
    assert "kv-bound" not in found
    told = found["throttled-by-max-num-seqs"]
    evidence = dict(told.evidence)
    (seen,) = rows(quickstart, "throttled").to_dict("records")
    assert evidence["max_num_seqs"] == "1"
    # With seven ahead of it, a request waits for most of the load.
    assert seen["queue_time_s"] > 3 * seen["duration_s"]
    assert evidence["queue time, all requests"] == f"{seen['queue_time_s']:.3g} s"
    assert told.attempts == ("raise max_num_seqs to 8 or more",)
    page = (quickstart.root / "reports/summary.html").read_text()
    assert "The server is throttled: max_num_seqs 1 keeps requests waiting." in page
