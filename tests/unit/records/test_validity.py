"""Each rule fires above its limit and not at it; all that is broken is told."""

from typing import Any

import pytest

from servetune.records.agreement import token_sources
from servetune.records.measurements import Card, Metrics
from servetune.records.rules import COMPILED, RULES
from servetune.records.validity import check_measurement, checks, refusals_allowed
from servetune.study.validity import Limits
from tests.loads import load

METRICS: dict[str, Any] = {
    "requests": 100,
    "completed_requests": 100,
    "failed_requests": 0,
    "duration_s": 10.0,
    "input_tokens": 1000,
    "output_tokens": 1000,
    "request_throughput_rps": 10.0,
    "output_throughput_tok_s": 100.0,
    "total_throughput_tok_s": 200.0,
}


def metrics(**changes: Any) -> Metrics:
    return Metrics(**{**METRICS, **changes})


ENGINE = {
    "queue_time_mean_ms": 4.0,
    "prefill_time_mean_ms": 20.0,
    "decode_time_mean_ms": 100.0,
    "server_e2e_mean_ms": 124.0,
}

# By rule: its limit, then what is at the limit, then what is above it, each as what is seen in
# the metrics and on the card.
CASES: dict[str, tuple[float, tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]] = {
    "failed-requests": (
        0.25,
        ({"failed_requests": 25, "completed_requests": 75}, {}),
        ({"failed_requests": 26, "completed_requests": 74}, {"first_error": "HTTP 500"}),
    ),
    "warm-prefix-cache": (
        0.25,
        ({"prefix_cache_hit_ratio": 0.75}, {"implied_prefix_cache_hit_ratio": 0.5}),
        ({"prefix_cache_hit_ratio": 0.8}, {"implied_prefix_cache_hit_ratio": 0.5}),
    ),
    "offered-rate": (
        0.25,
        ({}, {"offered_rate_rps": 4.0, "sent_rate_rps": 3.0}),
        ({}, {"offered_rate_rps": 4.0, "sent_rate_rps": 2.9}),
    ),
    "client-late": (
        50.0,
        ({}, {"send_delay_p99_ms": 50.0}),
        ({}, {"send_delay_p99_ms": 51.0}),
    ),
    "client-cpu": (
        0.9,
        ({}, {"client_cpu_ratio": 0.9}),
        ({}, {"client_cpu_ratio": 0.95}),
    ),
    "client-starved": (
        0.5,
        ({}, {"client_wait_ratio": 0.5}),
        ({}, {"client_wait_ratio": 0.6}),
    ),
    "output-length": (
        0.25,
        ({}, {"wrong_length_requests": 25}),
        ({}, {"wrong_length_requests": 26}),
    ),
    "preemptions": (
        1.0,
        ({"preemptions": 100}, {}),
        ({"preemptions": 101}, {}),
    ),
    "other-processes": (
        0.25,
        ({}, {"other_cpu_ratio": 0.25}),
        ({}, {"other_cpu_ratio": 0.3}),
    ),
    "other-gpu-processes": (
        1,
        ({}, {"other_gpu_processes": 1}),
        ({}, {"other_gpu_processes": 2}),
    ),
    "other-gpu-memory": (
        0.25,
        ({}, {"other_gpu_memory_gib": 0.25}),
        ({}, {"other_gpu_memory_gib": 0.3}),
    ),
    "gpu-busy-while-idle": (
        0.05,
        ({}, {"idle_gpu_utilization_ratio": 0.05}),
        ({}, {"idle_gpu_utilization_ratio": 0.06}),
    ),
    "throttled": (
        0.05,
        ({}, {"throttled_ratio": 0.05, "throttle_reasons": ["software_thermal"]}),
        ({}, {"throttled_ratio": 0.06, "throttle_reasons": ["software_thermal"]}),
    ),
    "server-counters": (
        0.25,
        ({}, {"server_requests_ratio": 1.0, "server_output_ratio": 0.75}),
        ({}, {"server_requests_ratio": 1.0, "server_output_ratio": 0.7}),
    ),
    "answer-texts": (
        0.25,
        ({}, {"text_input_error_ratio": 0.0, "text_output_error_ratio": 0.25}),
        ({}, {"text_input_error_ratio": 0.3, "text_output_error_ratio": 0.0}),
    ),
    "same-answers": (
        0.5,
        ({}, {"same_answers_ratio": 0.5}),
        ({}, {"same_answers_ratio": 0.6}),
    ),
    # Answers of three tokens, in six chunks and in eight, where four are as they should be.
    "surplus-chunks": (
        0.5,
        ({"output_tokens": 300}, {"tokens_per_chunk": 0.5, "tokens_per_step": 1.0}),
        ({"output_tokens": 300}, {"tokens_per_chunk": 0.375, "tokens_per_step": 1.0}),
    ),
    "coarse-chunks": (
        0.25,
        ({"output_tokens": 500}, {"tokens_per_chunk": 2.0, "tokens_per_step": 1.0}),
        ({"output_tokens": 500}, {"tokens_per_chunk": 3.0, "tokens_per_step": 1.0}),
    ),
    "coalesced-chunks": (
        0.5,
        ({}, {"instant_chunks_ratio": 0.5}),
        ({}, {"instant_chunks_ratio": 0.6}),
    ),
    "faster-than-server": (
        0.25,
        ({}, {"server_tpot_ratio": 0.75}),
        ({}, {"server_tpot_ratio": 0.7}),
    ),
    "latency-below-server": (
        0.25,
        ({**ENGINE, "answered_ttft_mean_ms": 18.0, "answered_e2e_mean_ms": 124.0}, {}),
        ({**ENGINE, "answered_ttft_mean_ms": 6.0, "answered_e2e_mean_ms": 124.0}, {}),
    ),
    "draft-counters": (
        0.25,
        ({}, {"draft_error_ratio": 0.25}),
        ({}, {"draft_error_ratio": 0.3}),
    ),
    "missing-load": (
        0.25,
        ({}, {"slots_used_ratio": 0.75}),
        ({}, {"slots_used_ratio": 0.7}),
    ),
    "unserved-load": (
        0.25,
        ({}, {"in_flight_mean": 4.0, "server_in_flight_mean": 3.0}),
        ({}, {"in_flight_mean": 4.0, "server_in_flight_mean": 2.9}),
    ),
    "policy-idle": (
        0.25,
        ({}, {"routing_outcomes": {"prefix_hit": 2, "prefix_miss": 1, "missing_tokens": 1}}),
        ({}, {"routing_outcomes": {"prefix_hit": 2, "missing_tokens": 1}}),
    ),
    "compiled-kernels": (
        1,
        ({}, {"compiled_kernels": ["a"]}),
        ({}, {"compiled_kernels": ["a", "b"]}),
    ),
}
LIMIT_OF = {rule.name: rule.limit for rule in RULES if rule.limit}
WITHOUT_A_NUMBER: dict[str, dict[str, Any]] = {
    "no-prefix-cache-reset": {"prefix_cache_was_reset": False},
    "counters-missing": {"counters_were_read": False},
    "counters-reset": {"counters_went_back": True},
    "usage-missing": {"answers_without_usage": 1},
    "other-model": {"other_model_answers": 1},
    "rate-limited": {"rate_was_limited": True},
    "ended-early": {"ended_early": True},
    "given-up": {"given_up": True},
    "engine-restarted": {"engine_restarts": 1},
    "no-drafts": {"drafted_nothing": True},
}
CONFIRMED = "tokens-confirmed"
"""Which breaks nothing: it says what confirms the tokens."""

NO_LIMITS = Limits(**dict.fromkeys(Limits.model_fields))


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(LIMIT_OF)
    assert set(LIMIT_OF.values()) == set(Limits.model_fields)
    assert {*CASES, *WITHOUT_A_NUMBER, CONFIRMED} == {rule.name for rule in RULES}


def test_nothing_known_breaks_nothing() -> None:
    assert check_measurement(metrics(), Card(), Limits()) == ("ok", None, None)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_fires_above_its_limit(rule: str) -> None:
    limit, _, (seen, card) = CASES[rule]
    limits = NO_LIMITS.model_copy(update={LIMIT_OF[rule]: limit})
    status, broken, reason = check_measurement(metrics(**seen), Card(**card), limits)
    assert (status, broken) == ("invalid", rule)
    assert reason


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_does_not_fire_at_its_limit(rule: str) -> None:
    limit, (seen, card), _ = CASES[rule]
    limits = NO_LIMITS.model_copy(update={LIMIT_OF[rule]: limit})
    [check] = [c for c in checks(metrics(**seen), Card(**card), limits) if c.rule == rule]
    assert (check.value, check.limit, check.is_broken) == (limit, limit, False)
    assert check_measurement(metrics(**seen), Card(**card), limits)[0] == "ok"


@pytest.mark.parametrize("rule", CASES)
def test_null_switches_a_rule_off(rule: str) -> None:
    _, _, (seen, card) = CASES[rule]
    assert check_measurement(metrics(**seen), Card(**card), NO_LIMITS) == ("ok", None, None)


@pytest.mark.parametrize("rule", CASES)
def test_a_check_keeps_value_and_limit_for_the_report(rule: str) -> None:
    limit, _, (seen, card) = CASES[rule]
    limits = NO_LIMITS.model_copy(update={LIMIT_OF[rule]: limit})
    [check] = [c for c in checks(metrics(**seen), Card(**card), limits) if c.is_broken]
    assert check.limits == LIMIT_OF[rule]
    assert check.value is not None
    assert check.value > limit


@pytest.mark.parametrize("rule", WITHOUT_A_NUMBER)
def test_a_rule_without_a_number_fires_whatever_the_limits(rule: str) -> None:
    card = WITHOUT_A_NUMBER[rule]
    status, broken, reason = check_measurement(metrics(), Card(**card), NO_LIMITS)
    assert (status, broken) == ("invalid", rule)
    assert reason
    kept = Card(**{name: not value for name, value in card.items()})
    assert check_measurement(metrics(), kept, Limits())[0] == "ok"


def test_all_broken_rules_are_told_and_the_first_is_named() -> None:
    card = Card(prefix_cache_was_reset=False, client_cpu_ratio=2.0, other_cpu_ratio=1.0)
    status, rule, reason = check_measurement(metrics(), card, Limits())
    assert (status, rule) == ("invalid", "no-prefix-cache-reset")
    assert reason is not None
    told = reason.split("; ")
    assert len(told) == 3
    assert "prefix cache" in told[0]
    assert "200% of its core" in told[1]
    assert "other processes" in told[2]


def test_a_reason_tells_the_first_error() -> None:
    failing = metrics(failed_requests=1, completed_requests=99)
    assert "HTTP 500" in str(check_measurement(failing, Card(first_error="HTTP 500"), Limits())[2])


def test_without_a_completed_request_a_measurement_failed() -> None:
    nothing = metrics(completed_requests=0, failed_requests=100)
    card = Card(first_error="HTTP 500", client_cpu_ratio=2.0)
    assert check_measurement(nothing, card, Limits()) == (
        "failed",
        None,
        "no request was answered: HTTP 500",
    )


def test_a_sent_rate_of_nothing_is_an_error_and_no_offered_rate_is_not_judged() -> None:
    nothing_sent = Card(offered_rate_rps=4.0, sent_rate_rps=0.0)
    assert check_measurement(metrics(), nothing_sent, Limits())[1] == "offered-rate"
    none_offered = Card(offered_rate_rps=None, sent_rate_rps=3.0)
    assert check_measurement(metrics(), none_offered, Limits())[0] == "ok"


def test_a_colder_cache_than_implied_is_not_warm() -> None:
    card = Card(implied_prefix_cache_hit_ratio=0.9)
    assert check_measurement(metrics(prefix_cache_hit_ratio=0.1), card, Limits())[0] == "ok"


def test_a_warm_cache_is_told_by_whichever_source_admits_it() -> None:
    card = Card(implied_prefix_cache_hit_ratio=0.0, answers_hit_ratio=0.8)
    cold = metrics(prefix_cache_hit_ratio=0.0)
    assert check_measurement(cold, card, Limits())[1] == "warm-prefix-cache"


def test_several_tokens_a_chunk_are_as_they_should_be_under_speculation() -> None:
    card = Card(tokens_per_chunk=2.4, tokens_per_step=2.5)
    assert check_measurement(metrics(), card, Limits())[0] == "ok"
    assert token_sources(card) == ["chunks"]


def test_a_front_end_that_is_behind_may_put_tokens_of_a_long_answer_together() -> None:
    card = Card(tokens_per_chunk=2.65, tokens_per_step=1.0)
    assert check_measurement(metrics(output_tokens=25_600), card, Limits())[0] == "ok"
    assert token_sources(card) == []


def test_tokens_that_no_second_source_tells_are_confirmed_by_none() -> None:
    assert token_sources(Card()) == []
    card = Card(server_output_ratio=1.0, text_output_error_ratio=0.0)
    assert token_sources(card) == ["texts", "counters"]


def test_the_servers_own_word_confirms_no_tokens() -> None:
    assert token_sources(Card(server_output_ratio=1.0)) == []


def test_a_single_source_tells_a_warm_cache_and_not_a_cold_one() -> None:
    card = Card(implied_prefix_cache_hit_ratio=0.0)

    def cold(ratio: float, card: Card) -> float | None:
        applied = checks(metrics(prefix_cache_hit_ratio=ratio), card, Limits())
        return next(check.value for check in applied if check.rule == "warm-prefix-cache")

    assert cold(0.0, card) is None
    assert cold(0.3, card) == 0.3
    assert cold(0.0, card.model_copy(update={"answers_hit_ratio": 0.0})) == 0.0


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (
            {"answered_ttft_mean_ms": 6.4},
            "TTFT at the client is 6.4 ms, of which the server took 24",
        ),
        ({"answered_e2e_mean_ms": 90.0}, "E2E latency at the client is 90 ms, of which"),
        ({"answered_e2e_mean_ms": 130.0, "server_e2e_mean_ms": 160.0}, "the server took 160 ms"),
    ],
)
def test_no_latency_of_the_client_is_below_the_servers_own(
    seen: dict[str, float], told: str
) -> None:
    status, rule, reason = check_measurement(metrics(**{**ENGINE, **seen}), Card(), Limits())
    assert (status, rule) == ("invalid", "latency-below-server")
    assert told in str(reason)


def test_a_record_whose_only_fault_are_compiled_kernels_names_them() -> None:
    card = Card(compiled_kernels=["_a", "_b"])
    status, rule, reason = check_measurement(metrics(), card, Limits())
    assert (status, rule) == ("invalid", COMPILED)
    assert "compiled _a, _b during the load: raise warmup_requests" in str(reason)
    both = card.model_copy(update={"same_answers_ratio": 1.0})
    assert check_measurement(metrics(), both, Limits())[1] == "same-answers"


@pytest.mark.parametrize(("at_server_ms", "rule"), [(130.0, None), (80.0, "unserved-load")])
def test_requests_that_an_api_server_holds_are_known_to_the_server(
    at_server_ms: float, rule: str | None
) -> None:
    """The engine has 5 of 8; the other three wait in the API server, or before it."""
    seen = metrics(answered_e2e_mean_ms=150.0, server_e2e_mean_ms=at_server_ms)
    card = Card(in_flight_mean=8.0, server_in_flight_mean=5.0)
    assert check_measurement(seen, card, Limits())[1] == rule
    assert check_measurement(metrics(), card, Limits())[1] == "unserved-load"


def test_requests_that_the_replicas_refused_are_no_matter_of_the_gateway() -> None:
    card = Card(
        routing_outcomes={"missing_tokens": 3, "prefix_hit": 1},
        first_error="HTTP 400: the prompt is too long",
    )
    reason = check_measurement(metrics(failed_requests=3), card, Limits())[2]
    assert reason and "3 of 4 decisions were by load alone (3 missing_tokens)" in reason
    assert "enable_scale_out" not in reason
    more = check_measurement(metrics(failed_requests=2), card, Limits())[2]
    assert more and "add enable_scale_out: true" in more


IDLE: list[tuple[dict[str, Any], float | None, str]] = [
    (
        {"routing_outcomes": {"missing_tokens": 96}},
        None,
        "96 of 96 decisions were by load alone (96 missing_tokens): the replicas gave it no tokens"
        " of the prompts; add enable_scale_out: true to server",
    ),
    (
        {"routing_outcomes": {}},
        None,
        "the gateway counted no decision by prefix: its policy did not act",
    ),
    (
        {"routing_outcomes": {"prefix_cost": 96}, "routing_lookups": {"miss": 96}},
        0.33,
        "the gateway found no cached block in 96 lookups, while the replicas' caches held 33% of"
        " the prompt tokens: it did not know what they hold, and went by load alone",
    ),
]


@pytest.mark.parametrize(("card", "hits", "reason"), IDLE)
def test_a_prefix_policy_that_did_not_act_is_invalid_and_says_why(
    card: dict[str, Any], hits: float | None, reason: str
) -> None:
    found = metrics(prefix_cache_hit_ratio=hits)
    hit = {"implied_prefix_cache_hit_ratio": 1.0}
    status, rule, told = check_measurement(found, Card(**card, **hit), Limits())
    assert (status, rule, told) == ("invalid", "policy-idle", reason)


@pytest.mark.parametrize(
    "card",
    [
        {},
        # It looked, and no prompt had a prefix that was long enough.
        {"routing_outcomes": {"prefix_miss": 96}},
        {"routing_outcomes": {"prefix_cost": 96}, "routing_lookups": {"miss": 90, "hit": 6}},
        # No cache held anything: there was nothing to find.
        {"routing_outcomes": {"prefix_cost": 96}, "routing_lookups": {"miss": 96}},
    ],
)
def test_another_policy_and_one_that_looked_are_not_idle(card: dict[str, Any]) -> None:
    assert check_measurement(metrics(), Card(**card), Limits())[0] == "ok"


def test_a_load_is_given_up_once_more_is_refused_than_anyone_bears() -> None:
    few = load(concurrency=4, settle_requests=3)
    assert refusals_allowed(few, 300, Limits(failed_ratio=0.0)) == 33
    assert refusals_allowed(few, 300, Limits(failed_ratio=0.5)) == 153
    assert refusals_allowed(few, 300, Limits(failed_ratio=None)) is None
