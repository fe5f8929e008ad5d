"""Result files of any tool are compared by the rules of our own launches, without a study."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from servetune.analysis.wording import TIMES
from servetune.cli import app
from servetune.numbers import NONE
from tests.paths import ROOT
from tests.unit.test_terminal import STEERING, steers

DATA = ROOT / "tests/data/imports"
AIPERF = DATA / "aiperf-0.13.json"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with nothing of servetune's in it."""
    monkeypatch.chdir(tmp_path)


def compare(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def told(*words: str | Path) -> str:
    result = compare(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def error(*words: str | Path) -> str:
    result = compare(*words)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    return line


def launches(name: str, count: int, factor: float = 1.0, spread: float = 0.002) -> list[str]:
    """Write runs of vllm bench serve: the aggregates of one, each a little off."""
    result = json.loads((DATA / "vllm-bench-0.32-detailed.json").read_text())
    lists = ("ttfts", "itls", "latencies", "errors", "start_times", "input_lens", "output_lens")
    aggregates = {key: value for key, value in result.items() if key not in lists}
    random = np.random.default_rng(len(name))
    words = []
    for index in range(count):
        off = factor * np.exp(spread * random.standard_normal())
        changed = {key: off * aggregates[key] for key in aggregates if key.endswith("_ms")}
        changed |= {"output_throughput": aggregates["output_throughput"] / off}
        path = Path(f"{name}-{index}.json")
        path.write_text(json.dumps(aggregates | changed))
        words.append(f"{name}={path}")
    return words


def edited(change: Change, name: str = "edited.json", source: Path = AIPERF) -> Path:
    content = json.loads(source.read_text())
    change(content)
    path = Path(name)
    path.write_text(json.dumps(content))
    return path


def slower_ttft(content: dict[str, Any]) -> None:
    content["time_to_first_token"]["p50"] *= 1.5


def test_a_file_and_an_edited_copy_are_undecided_as_one_run_each() -> None:
    page = told(AIPERF, edited(slower_ttft))
    assert "One run each: undecided" in page
    assert f"| TTFT p50, ms | 38.9 | 58.3 | 1.50{TIMES} | undecided: one run each |" in page
    assert not any(word in page for word in ("slower", "faster", "indistinguishable"))


def test_launches_of_a_slower_side_are_proven_slower_and_may_fail_a_check() -> None:
    words = [*launches("old", 4), *launches("newer", 4, factor=1.2)]
    page = told(*words)
    assert re.search(
        r"TPOT p50, ms \| 2\.\d+ .*\| 2\.\d+ .*\| 1\.(19|20|21)\D.+ \| slower \|", page
    )
    assert compare(*words, "--fail-on", "slower").exit_code == 1


def test_launches_that_are_alike_are_proven_indistinguishable() -> None:
    words = [*launches("old", 5), *launches("newer", 5)]
    page = told(*words)
    assert "indistinguishable" in page and "slower" not in page
    assert compare(*words, "--fail-on", "slower").exit_code == 0


def test_one_run_against_several_is_not_decided() -> None:
    page = told(*launches("old", 4), *launches("newer", 1, factor=1.0))
    assert "undecided" in page
    assert "faster" not in page


def test_a_pattern_is_a_side_with_a_launch_a_file() -> None:
    launches("old", 3)
    launches("newer", 3, factor=1.2)
    page = told("old=old-*.json", "newer=newer-*.json")
    assert "slower" in page


def test_the_same_run_given_twice_is_refused() -> None:
    shutil.copy(AIPERF, "again.json")
    line = error(f"a={AIPERF}", "a=again.json", f"b={edited(slower_ttft)}")
    assert "the same file, given as two launches of a" in line
    other_bytes = edited(lambda content: None, "reformatted.json")
    line = error(f"a={AIPERF}", f"a={other_bytes}", f"b={edited(slower_ttft)}")
    assert "the same run, given as two launches of a" in line


def test_three_sides_are_compared_with_the_first() -> None:
    page = told(*launches("old", 3), *launches("one", 3), *launches("other", 3))
    assert "### one at c2" in page and "### other at c2" in page
    assert page.startswith("## servetune: one and other against old\n")


def test_different_tools_models_and_lengths_are_told() -> None:
    page = told(AIPERF, DATA / "guidellm-0.8.1.json")
    assert "Measured by different tools: AIPerf and GuideLLM" in page
    assert "Prompts have other lengths" in page and "Answers have other lengths" in page
    page = told(AIPERF, edited(lambda c: c["input_config"]["models"]["items"][0].update(name="b")))
    assert "Different models answered: it and b" in page


def test_what_a_side_does_not_tell_is_not_known_and_never_zero() -> None:
    page = told(DATA / "vllm-rs-0.33.json", DATA / "guidellm-0.8.1.json", "--goodput", "ttft:20")
    assert f"| SLO attainment, % | 90.0 | not known | {NONE} | not known |" in page
    assert "| 0 |" not in page.split("### Files")[0]


def test_a_file_with_requests_has_an_interval_within_its_run() -> None:
    page = told(DATA / "vllm-rs-0.33.json", DATA / "guidellm-0.8.1.json")
    assert "| TTFT p50, ms | 13.2 \\[12.5, 14.0\\] | 43.2 |" in page


def test_load_points_that_only_one_side_measured_are_an_error() -> None:
    line = error(DATA / "vllm-bench-0.32.json", DATA / "vllm-rs-0.33.json")
    assert "no load point was measured on both sides" in line
    assert "r20" in line and "c4" in line


def test_a_throughput_that_a_rate_sets_has_no_verdict() -> None:
    source = DATA / "vllm-bench-0.32.json"
    page = told(source, edited(lambda c: c.update(mean_ttft_ms=4.0), source=source))
    assert f"| Output, tok/s | 113 | 113 | 1.00{TIMES} | {NONE} |" in page


def test_a_run_that_nobody_answered_and_one_that_contradicts_itself_count_for_nothing() -> None:
    source = DATA / "vllm-bench-0.32-detailed.json"
    wrong = edited(lambda c: c.update(median_ttft_ms=1.0), source=source)
    page = told(source, wrong)
    assert "edited.json, c2: invalid: its summary says ttft_p50_ms 1, its requests" in page
    assert "There is nothing to compare" in page
    dead = edited(lambda c: c.update(completed=0), "dead.json", source)
    assert "dead.json, c2: failed: no request was answered" in told(source, dead)


def test_a_load_that_a_file_does_not_tell_is_said_so() -> None:
    page = told(AIPERF, DATA / "aiperf-0.13.jsonl")
    assert "At which concurrency or rate is not known of" in page


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a=one.json"], "is one side; expected two or more"),
        (["one.json", "none-*.json"], "none-*.json: no file has such a name"),
        (["one.json", "missing.json"], "missing.json: no such file"),
        (["one.json", str(DATA / "aiperf-0.13.json"), "--goodput", "ttft"], "expected a latency"),
        (["one.json", str(AIPERF), "--goodput", "ttft:nan"], "expected a latency"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], expected: str) -> None:
    shutil.copy(AIPERF, "one.json")
    assert expected in error(*words)


def test_names_in_a_file_format_and_steer_nothing() -> None:
    def spoil(content: dict[str, Any]) -> None:
        content["input_config"]["models"]["items"][0]["name"] = f"|*x*|{STEERING}<script>"
        content["aiperf_version"] = f"{STEERING}|`"

    page = told(AIPERF, edited(spoil))
    assert not steers(page)
    assert "<script>" not in page and "|*x*|" not in page
