"""What a load that lies leaves on its card, told from its replies and the server's metrics."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.load.generator import CUT, Reply
from servetune.load.request_table import aggregate, request_table
from servetune.load.schedule import make_schedule
from servetune.records.agreement import token_sources
from servetune.records.measurements import Card, Metrics
from servetune.records.validity import checks
from servetune.sessions.agreement import (
    Count,
    counter_of_tokens,
    from_answers,
    from_chunks,
    from_counters,
    in_flight,
)
from servetune.study.validity import Limits
from tests.loads import failed, load, reply, rows
from tests.standin.serving import write_tokenizer

TOKENS, CLIENTS, REQUESTS = 20, 4, 16
BEFORE = {"requests_finished": 5.0, "prompt_tokens": 100.0, "generation_tokens": 50.0}
GREW = {
    "requests_finished": 1.0 * REQUESTS,
    "prompt_tokens": 10.0 * REQUESTS,
    "generation_tokens": 1.0 * TOKENS * REQUESTS,
    "decode_time_s": 0.05 * (TOKENS - 1) * REQUESTS,
    "prefix_cache_queries": 10.0 * REQUESTS,
    "prefix_cache_hits": 0.0,
}
BUSY = pd.DataFrame({"requests_running": [4.0] * 8, "requests_waiting": [0.0] * 8})


def words(count: int, first: str = "w") -> str:
    return "".join(f" {first}{i}" for i in range(count))


def answers(**changes: Any) -> list[Reply]:
    """Four clients whose answers of 20 tokens, one each 50 ms, take 1 s."""
    told: dict[str, Any] = {
        "output_tokens": TOKENS,
        "ttft_s": 0.05,
        "e2e_s": 1.0,
        "itl_s": [0.05] * (TOKENS - 1),
        "cached_tokens": 0,
        "has_usage": True,
        "model": "it",
        **changes,
    }
    return [
        reply(i, i // CLIENTS + 0.001 * (i % CLIENTS), **{"text": words(TOKENS, f"a{i}x"), **told})
        for i in range(REQUESTS)
    ]


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> Count:
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    (folder / "config.json").write_text("{}")
    made = counter_of_tokens(folder)
    assert made is not None
    return made


def judged(
    replies: list[Reply],
    count: Count | None,
    grew: dict[str, float] = GREW,
    samples: pd.DataFrame = BUSY,
    stream_interval: int | None = None,
    **declared: Any,
) -> tuple[set[str], Card]:
    """Return the rules that a load breaks, and its card."""
    told = load(**{"concurrency": CLIENTS, "requests": REQUESTS, **declared})
    rows: list[Any] = [
        {"prompt": words(10, f"p{i}x"), "output_tokens": TOKENS} for i in range(REQUESTS)
    ]
    schedule = make_schedule(rows, told)
    requests = request_table(replies, schedule, told)
    metrics = aggregate(requests, grew, told)
    before = {name: BEFORE.get(name, 0.0) for name in grew}
    after = {name: before[name] + value for name, value in grew.items()}
    card = Card(
        implied_prefix_cache_hit_ratio=0.0,
        **from_answers(replies, schedule, told, "it", count),
        **from_counters(requests, metrics, before, after, samples),
        **from_chunks(requests, metrics, stream_interval),
        **in_flight(requests, told, samples),
    )
    return broken(metrics, card), card


def broken(metrics: Metrics, card: Card) -> set[str]:
    return {check.rule for check in checks(metrics, card, Limits()) if check.is_broken}


def test_an_honest_server_breaks_no_rule_and_its_tokens_are_confirmed(count: Count) -> None:
    rules, card = judged(answers(), count)
    assert rules == set()
    assert token_sources(card) == ["texts", "chunks", "counters"]
    assert card.server_output_ratio == card.server_input_ratio == 1
    assert card.text_output_error_ratio == card.text_input_error_ratio == 0
    assert card.server_tpot_ratio == pytest.approx(1, rel=0.01)


ALL_AT_ONCE = {"ttft_s": 1.0, "itl_s": []}
TWICE = [gap for _ in range(TOKENS) for gap in (0.0, 0.05)][:-1]
LIES: dict[str, tuple[str, dict[str, Any], dict[str, float]]] = {
    "all tokens in one chunk": ("coarse-chunks", ALL_AT_ONCE, {}),
    "all tokens in one chunk, by the times": ("faster-than-server", ALL_AT_ONCE, {}),
    "half the tokens": ("server-counters", {"text": words(10)}, {"generation_tokens": 160.0}),
    "half the tokens, by the text": ("answer-texts", {"text": words(10)}, {}),
    "empty text": ("answer-texts", {"text": ""}, {}),
    "every chunk twice": ("surplus-chunks", {"itl_s": TWICE}, {}),
    "chunks that came together": ("coalesced-chunks", {"itl_s": [0.0] * 15 + [0.2375] * 4}, {}),
    "one answer for all": ("same-answers", {"text": words(TOKENS)}, {}),
    "no usage": ("usage-missing", {"has_usage": False}, {}),
    "another model": ("other-model", {"model": "a-smaller-one"}, {}),
    "a longer prompt than was sent": ("answer-texts", {"input_tokens": 20}, {}),
    "counters that stand still": ("server-counters", {}, {"generation_tokens": 0.0}),
    "counters that fell": ("counters-reset", {}, {"generation_tokens": -50.0}),
    "fewer finished than answered": ("server-counters", {}, {"requests_finished": 8.0}),
    "a warm cache in the usage alone": ("warm-prefix-cache", {"cached_tokens": 8}, {}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_breaks_the_rule_that_it_breaks(lie: str, count: Count) -> None:
    rule, changes, grew = LIES[lie]
    assert rule in judged(answers(**changes), count, {**GREW, **grew})[0]


def test_reasoning_is_counted_but_for_the_tokens_around_it(count: Count) -> None:
    """Of 20 tokens that an answer states, 10 mark its reasoning and have no text."""
    marked = answers(text=None)
    replies = [replace(r, text=words(10, f"a{r.scheduled}x"), textless_tokens=17) for r in marked]
    rules, card = judged(replies, count)
    assert rules == set()
    assert card.text_output_error_ratio == 0


def test_the_tokens_of_answers_whose_text_is_not_known_are_not_known(count: Count) -> None:
    known = answers()[:1]
    replies = [*known, *(replace(reply, text=None) for reply in answers()[1:])]
    assert judged(replies, count)[1].text_output_error_ratio == 0
    _, card = judged(answers(text=None), count)
    assert card.text_output_error_ratio is None
    assert "texts" not in token_sources(card)


def test_a_counter_that_falls_and_grows_again_in_the_load_is_told(count: Count) -> None:
    samples = BUSY.assign(generation_tokens=[60, 120, 180, 0, 60, 120, 200, 370])
    assert judged(answers(), count, samples=samples)[0] == {"counters-reset"}


def test_what_a_missing_source_would_tell_is_not_known() -> None:
    _, card = judged(answers(text=None, has_usage=None, model=None, cached_tokens=None), None, {})
    assert card.text_output_error_ratio is None and card.same_answers_ratio is None
    assert card.server_output_ratio is None and card.server_tpot_ratio is None
    assert card.answers_without_usage is None and card.other_model_answers is None
    assert card.answers_hit_ratio is None
    assert token_sources(card) == ["chunks"]


def test_half_of_the_tokens_by_a_server_that_lies_in_its_counters_are_not_confirmed() -> None:
    rules, card = judged(answers(itl_s=[0.1] * 9), None)
    assert rules == set()
    assert token_sources(card) == []


def test_a_server_that_streams_in_intervals_is_honest(count: Count) -> None:
    in_fives: dict[str, Any] = {"itl_s": [0.2375] * 4}
    assert judged(answers(**in_fives), count)[0] == {"coarse-chunks"}
    assert judged(answers(**in_fives), count, stream_interval=5)[0] == set()


@pytest.mark.parametrize(
    ("interval", "chunks"), [(1, 20), (5, 5), (6, 5), (8, 4), (20, 2), (50, 2)]
)
def test_the_chunks_of_an_interval_are_expected_to_the_last(
    interval: int, chunks: int, count: Count
) -> None:
    gaps_s = [0.95 / (chunks - 1)] * (chunks - 1)
    rules, card = judged(answers(itl_s=gaps_s), count, stream_interval=interval)
    assert rules == set()
    assert card.tokens_per_chunk == card.tokens_per_step == TOKENS / chunks
    assert token_sources(card) == ["texts", "chunks", "counters"]


@pytest.mark.parametrize("interval", [5, 6, 8])
def test_chunks_beyond_those_of_an_interval_are_surplus(interval: int, count: Count) -> None:
    rules, _ = judged(answers(), count, stream_interval=interval)
    assert rules == {"surplus-chunks"}


def test_speculation_gives_several_tokens_a_chunk(count: Count) -> None:
    drafts = {"drafts": 128.0, "draft_tokens": 384.0, "accepted_tokens": 192.0}
    rules, card = judged(answers(itl_s=[0.95 / 7] * 7), count, {**GREW, **drafts})
    assert rules == set()
    assert card.tokens_per_chunk == card.tokens_per_step == 2.5
    assert "chunks" in token_sources(card)


def test_speculation_in_intervals_sends_whole_steps(count: Count) -> None:
    drafts = {"drafts": 128.0, "draft_tokens": 384.0, "accepted_tokens": 192.0}
    in_steps = answers(itl_s=[0.95 / 4] * 4)
    rules, card = judged(in_steps, count, {**GREW, **drafts}, stream_interval=4)
    assert rules == set()
    assert card.tokens_per_chunk == card.tokens_per_step == 4


def test_speculation_that_seldom_finds_a_draft_gives_about_one_token_a_chunk(count: Count) -> None:
    """As n-grams do: 32 of 288 steps verify a draft, and accept one token of it."""
    drafts = {"drafts": 32.0, "draft_tokens": 96.0, "accepted_tokens": 32.0}
    rules, card = judged(answers(itl_s=[0.95 / 17] * 17), count, {**GREW, **drafts})
    assert rules == set()
    assert card.tokens_per_chunk == card.tokens_per_step == pytest.approx(20 / 18)
    assert "chunks" in token_sources(card)


def test_what_was_cut_off_or_failed_may_be_more_at_the_server_but_not_less(count: Count) -> None:
    cut = [replace(each, error=CUT, is_cut=True) for each in answers()[:2]]
    lost = [failed(2, 0.002)]
    rules, card = judged([*cut, *lost, *answers()[3:]], count)
    assert card.server_output_ratio == 1
    assert "server-counters" not in rules
    less = judged([*cut, *lost, *answers()[3:]], count, {**GREW, "generation_tokens": 200.0})
    assert "server-counters" in less[0]


def test_a_text_that_lost_bytes_tells_no_tokens(count: Count) -> None:
    _, card = judged(answers(text="\N{REPLACEMENT CHARACTER}"), count)
    assert card.text_output_error_ratio is None


def test_without_a_tokenizer_no_answer_is_read(tmp_path: Path) -> None:
    assert counter_of_tokens(tmp_path) is None


def test_a_tokenizer_smaller_than_the_model_reads_no_answers(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"vocab_size": 128256}')
    assert counter_of_tokens(tmp_path) is None


def one_by_one() -> list[Reply]:
    """The same answers, each sent when the one before it ended."""
    return [replace(each, sent_s=float(i)) for i, each in enumerate(answers())]


def test_a_concurrency_that_never_was_in_flight_is_told(count: Count) -> None:
    rules, card = judged(one_by_one(), count)
    assert "missing-load" in rules
    assert card.slots_used_ratio == pytest.approx(0.25, rel=0.05)
    assert judged(answers(), count)[1].slots_used_ratio == pytest.approx(1, rel=0.01)


def test_a_conversation_keeps_its_place_while_it_waits_for_its_next_turn() -> None:
    declared = load(concurrency=1, requests=6, turn_delay_s=9)
    replies = [reply(i, 10.0 * i, e2e_s=1.0) for i in range(6)]
    table = request_table(replies, make_schedule(rows(2, turns=3), declared), declared)
    assert in_flight(table, declared, BUSY)["slots_used_ratio"] == pytest.approx(21 / 30)


def test_only_a_closed_loop_has_a_concurrency_to_keep(count: Count) -> None:
    rules, card = judged(one_by_one(), count, concurrency=None, rate_rps=1)
    assert card.slots_used_ratio is None and "missing-load" not in rules


def test_requests_in_flight_that_the_server_knows_nothing_of_are_told(count: Count) -> None:
    alone = BUSY.assign(requests_running=1.0)
    rules, card = judged(answers(), count, samples=alone)
    assert rules == {"unserved-load"}
    assert card.in_flight_mean == pytest.approx(4, rel=0.01)
    assert card.server_in_flight_mean == 1


def test_a_server_that_lets_the_others_wait_and_says_so_is_honest(count: Count) -> None:
    queueing = BUSY.assign(requests_running=1.0, requests_waiting=3.0)
    assert judged(answers(), count, samples=queueing)[0] == set()


def test_a_few_samples_tell_nothing_of_the_load_at_the_server(count: Count) -> None:
    card = judged(answers(), count, samples=BUSY.assign(requests_running=1.0).head(3))[1]
    assert card.server_in_flight_mean is None


def test_an_answer_to_a_class_of_an_adapter_names_the_adapter() -> None:
    declared = load(requests=2, classes={"plain": {}, "tuned": {"model": "style"}})
    data: list[Any] = [{"prompt": "p", "output_tokens": 3, "class": c} for c in declared.classes]
    schedule = make_schedule(data, declared)
    named = [reply(0, 0.0, model="it"), reply(1, 1.0, model="style")]
    assert from_answers(named, schedule, declared, "it", None)["other_model_answers"] == 0
    as_asked = [reply(0, 0.0, model="style"), reply(1, 1.0, model="it")]
    assert from_answers(as_asked, schedule, declared, "it", None)["other_model_answers"] == 2


def test_answers_of_a_grammar_may_be_the_same() -> None:
    alike = answers(text=words(TOKENS), answer=words(TOKENS))
    declared = load(concurrency=CLIENTS, requests=REQUESTS)
    data: list[Any] = [{"prompt": f"p{i}", "output_tokens": TOKENS} for i in range(REQUESTS)]
    schedule = make_schedule(data, declared)
    count = lambda text: len(text.split())  # noqa: E731
    assert from_answers(alike, schedule, declared, "it", count)["same_answers_ratio"] is None
    free = [replace(each, answer=None) for each in alike]
    assert from_answers(free, schedule, declared, "it", count)["same_answers_ratio"] == 1
