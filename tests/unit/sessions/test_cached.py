"""What a cache of answers did under a load: whose answer each hit got, and what is checked."""

from typing import Any

import pytest

from servetune.load.generator import Reply
from servetune.load.request_table import aggregate, from_server, request_table
from servetune.load.schedule import make_schedule
from servetune.records.cached import CachedAnswers
from servetune.sessions.agreement import from_answers, from_counters
from servetune.sessions.cached import cached_answers
from tests.loads import load, reply

ROWS: list[Any] = [
    {"prompt": "Enable it?", "class": "first", "pair": "n1", "output_tokens": 3},
    {"prompt": "Open on Monday?", "class": "first", "pair": "p1", "output_tokens": 3},
    {"prompt": "Disable it?", "class": "negation", "pair": "n1", "is_same": False},
    {"prompt": "Is Monday a day?", "class": "paraphrase", "pair": "p1", "is_same": True},
    {"prompt": "Enable it?", "class": "first", "pair": "n2"},
    {"prompt": "Anything new?", "class": "scope", "pair": "s1", "is_same": False},
]
for row in ROWS:
    row["output_tokens"] = 3
LOAD = load(requests=len(ROWS), endpoint="chat")
SCHEDULE = make_schedule(ROWS, LOAD)

YES, OPEN = "Yes, enable it.", "Open from nine."


def made(*changes: dict[str, Any]) -> tuple[CachedAnswers | None, list[Reply]]:
    replies = [reply(place, float(place), **told) for place, told in enumerate(changes)]
    table = request_table(replies, SCHEDULE, LOAD)
    return cached_answers(table, replies, SCHEDULE), replies


MISS = {"cache": "miss"}
ANSWERS = (
    {**MISS, "text": YES},
    {**MISS, "text": OPEN},
    # One word apart, and the answer to the opposite.
    {"cache": "semantic", "text": YES, "similarity": 0.97, "e2e_s": 0.1, "ttft_s": 0.1},
    {"cache": "semantic", "text": OPEN + " ", "similarity": 0.91, "e2e_s": 0.1, "ttft_s": 0.1},
    {"cache": "exact", "text": YES, "similarity": 1.0, "e2e_s": 0.1, "ttft_s": 0.1},
    {"cache": "bypass", "text": "Nothing."},
)


def test_a_hit_is_wrong_if_its_answer_is_that_of_another_question() -> None:
    found, _ = made(*ANSWERS)
    assert found is not None
    assert (found.exact, found.semantic, found.misses, found.bypassed) == (1, 2, 2, 1)
    assert (found.wrong, found.unknown) == (1, 0)
    (hit,) = found.first_wrong
    assert (hit.kind, hit.asked, hit.answered) == ("negation", "Disable it?", "Enable it?")
    kinds = {kind.name: (kind.requests, kind.hits, kind.wrong) for kind in found.kinds}
    assert kinds == {
        **{"first": (3, 1, 0), "negation": (1, 1, 1)},
        **{"paraphrase": (1, 1, 0), "scope": (1, 0, 0)},
    }


def test_a_pair_with_one_answer_gets_that_of_no_other_pair() -> None:
    stolen = {"cache": "semantic", "text": YES, "similarity": 0.9}
    found, _ = made(*ANSWERS[:3], stolen, *ANSWERS[4:])
    assert found is not None and found.wrong == 2


def test_a_hit_whose_question_is_not_known_is_neither_right_nor_wrong() -> None:
    strange = {"cache": "semantic", "text": "From elsewhere.", "similarity": 0.9}
    found, _ = made(*ANSWERS[:2], strange, *ANSWERS[3:])
    assert found is not None and (found.wrong, found.unknown) == (0, 1)


def test_hits_and_misses_have_their_own_latency() -> None:
    found, _ = made(*ANSWERS)
    assert found is not None
    assert found.hit_e2e_p50_ms == pytest.approx(100) and found.miss_e2e_p50_ms == pytest.approx(
        700
    )


def test_what_is_stored_has_no_time_per_token() -> None:
    _, replies = made(*ANSWERS)
    told = [each.latencies_ms for each in replies]
    assert [each and each["tpot_ms"] for each in told[:3]] == [*[pytest.approx(100)] * 2, None]
    assert told[2] is not None and told[2]["itl_ms"] == []


def test_without_a_cache_there_is_nothing_to_say() -> None:
    found, _ = made(*[{"text": YES}] * len(ROWS))
    assert found is None


def test_the_servers_counts_are_held_against_what_reached_it_alone() -> None:
    _, replies = made(*ANSWERS)
    table = request_table(replies, SCHEDULE, LOAD)
    served = from_server(table)
    before = {"requests_finished": 0.0, "prompt_tokens": 0.0, "generation_tokens": 0.0}
    after = {"requests_finished": 3.0, "prompt_tokens": 30.0, "generation_tokens": 9.0}
    metrics = aggregate(table, after, LOAD)
    told = from_counters(served, metrics, before, after, table.iloc[:0])
    assert told["server_requests_ratio"] == told["server_output_ratio"] == 1
    # One that says hit, and asked the server all the same, is found out.
    asked = from_counters(served, metrics, before, {**after, "requests_finished": 6.0}, table[:0])
    assert asked["server_requests_ratio"] == 2
    assert metrics.answered_e2e_mean_ms == pytest.approx(700)
    reached = [each for each in replies if each.scheduled in {*served["scheduled"]}]
    assert from_answers(reached, SCHEDULE, LOAD, "m", None)["answers_without_usage"] is None
