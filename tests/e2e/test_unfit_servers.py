"""Servers that are unfit on purpose, on real vLLM: the report says how."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
import pytest

from tests.e2e.clone import Clone

pytestmark = pytest.mark.e2e


def row(quickstart: Clone, workload: str) -> dict[Hashable, Any]:
    table = quickstart.table()
    (found,) = table[(table["variant"] == "unfit") & (table["workload"] == workload)].to_dict(
        "records"
    )
    return found


def test_a_broken_quantization_fails_the_bounds_of_quality(quickstart: Clone) -> None:
    quality = pd.read_parquet(quickstart.root / "results/quickstart/quality.parquet")
    found = quality.set_index("variant").loc["unfit"]
    assert (found["status"], found["verdict"]) == ("ok", "fails"), found.to_string()
    assert found["perplexity_ratio"] > 1.1
    for report in ("summary.html", "summary.md"):
        text = (quickstart.root / "reports" / report).read_text()
        assert "unfit fails the bounds of quality" in text


def test_a_kv_cache_made_too_small_is_told_with_its_preemptions(quickstart: Clone) -> None:
    found = quickstart.findings("unfit", "long", "c2")
    preemptions = row(quickstart, "long")["preemptions"]
    assert preemptions > 0
    evidence = dict(found["kv-bound"].evidence)
    assert evidence["preemptions"] == f"{preemptions:,.0f}"
    assert evidence["KV cache"] == "640 tokens"
    assert "throttled-by-max-num-seqs" not in found
    page = (quickstart.root / "reports/summary.html").read_text()
    assert "The KV cache is too small for this load." in page


def test_a_server_with_too_few_sequences_is_told_to_be_throttled_with_its_queue_time(
    quickstart: Clone,
) -> None:
    found = quickstart.findings("unfit", "many", "c8")
    assert "kv-bound" not in found
    throttled = found["throttled-by-max-num-seqs"]
    evidence = dict(throttled.evidence)
    load = row(quickstart, "many")
    assert evidence["max_num_seqs"] == "2"
    # With six ahead of it, a request waits for most of the load.
    assert load["queue_time_s"] > 3 * load["duration_s"]
    assert evidence["queue time, all requests"] == f"{load['queue_time_s']:.3g} s"
    (attempt,) = throttled.attempts
    # No more than this KV cache has room for.
    assert 2 < int(attempt.removeprefix("raise max_num_seqs to ").split()[0]) < 8
    page = (quickstart.root / "reports/summary.html").read_text()
    assert "The server is throttled: max_num_seqs 2 keeps requests waiting." in page
