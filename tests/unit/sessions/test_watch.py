"""When a load that runs is warned of."""

from servetune.sessions.watch import crawls, crowded, done_ratio, stalls


def test_neighbours_are_warned_of_where_they_would_make_a_measurement_invalid() -> None:
    assert crowded(0.42, 0.25) and "42 %" in str(crowded(0.42, 0.25))
    for ratio, limit in ((0.25, 0.25), (None, 0.25), (0.9, None)):
        assert crowded(ratio, limit) is None


def test_a_load_without_tokens_is_warned_of_before_it_ends() -> None:
    assert stalls(61, 120) and stalls(59, 120) is None


def test_a_load_that_crawls_is_warned_of_from_its_pace_before_it_is_late() -> None:
    # A tenth is done after 20 s: 200 s in place of 30.
    told = crawls(0.1, 20, expected_s=30, timeout_s=100)
    assert told and "about 3 min" in told and "about 30 s" in told and "load_timeout_s" in told
    assert crawls(0.5, 20, expected_s=30, timeout_s=100) is None
    assert crawls(0.0, 91, expected_s=30, timeout_s=600)
    # The first answers say little.
    assert crawls(0.01, 5, expected_s=10, timeout_s=600) is None


def test_a_load_of_long_answers_does_not_crawl_before_the_first_has_ended() -> None:
    """As with 256 clients that send together: many tokens, and hardly an answer that has ended."""
    done = done_ratio(finished=1, requests=512, generated=70_000, output_tokens=262_144)
    assert crawls(done, 27, expected_s=60, timeout_s=3600) is None


def test_a_load_is_as_far_as_its_requests_where_answers_end_early() -> None:
    assert done_ratio(finished=50, requests=100, generated=200, output_tokens=10_000) == 0.5
    assert done_ratio(finished=0, requests=100, generated=0, output_tokens=0) == 0
