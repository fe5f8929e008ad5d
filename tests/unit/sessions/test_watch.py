"""When a load that runs is warned of."""

from servetune.sessions.watch import crawls, crowded, done_ratio, stalls, whole_load_s


def test_neighbours_are_warned_of_where_they_would_make_a_measurement_invalid() -> None:
    assert crowded(0.42, 0.25) and "42 %" in str(crowded(0.42, 0.25))
    for ratio, limit in ((0.25, 0.25), (None, 0.25), (0.9, None)):
        assert crowded(ratio, limit) is None


def test_a_load_without_tokens_is_warned_of_before_it_ends() -> None:
    assert stalls(61, 120) and stalls(59, 120) is None


def test_a_load_that_crawls_is_warned_of_from_its_pace_before_it_is_late() -> None:
    # A tenth is done after 20 s: 200 s in place of 30.
    told = crawls(whole_load_s(0.1, 20, []), 20, expected_s=30, timeout_s=100)
    assert told and "about 3 min" in told and "about 30 s" in told and "load_timeout_s" in told
    assert crawls(whole_load_s(0.5, 20, []), 20, expected_s=30, timeout_s=100) is None
    assert crawls(whole_load_s(0.0, 91, []), 91, expected_s=30, timeout_s=600)
    # The first answers say little.
    assert crawls(whole_load_s(0.01, 5, []), 5, expected_s=10, timeout_s=600) is None


def test_a_load_of_long_answers_does_not_crawl_before_the_first_has_ended() -> None:
    """As with 256 clients that send together: many tokens, and hardly an answer that has ended."""
    done = done_ratio(finished=1, requests=512, generated=70_000, output_tokens=262_144)
    assert crawls(whole_load_s(done, 27, []), 27, expected_s=60, timeout_s=3600) is None


def test_a_load_is_as_far_as_its_requests_where_answers_end_early() -> None:
    assert done_ratio(finished=50, requests=100, generated=200, output_tokens=10_000) == 0.5
    assert done_ratio(finished=0, requests=100, generated=0, output_tokens=0) == 0


def test_conversations_that_still_arrive_do_not_crawl() -> None:
    """As 60 of five turns of 20 s each, two a second: all is over after 130 s."""
    arrivals_s = [number / 2 for number in range(60)]
    for elapsed_s in range(11, 120):
        on_the_way_s = sum(min(100.0, max(0.0, elapsed_s - at_s)) for at_s in arrivals_s)
        ratio = on_the_way_s / 100 / 60
        takes_s = whole_load_s(ratio, elapsed_s, arrivals_s)
        assert 129 <= takes_s <= 152
        assert crawls(takes_s, elapsed_s, expected_s=130, timeout_s=900) is None
        # Four times as slow, it does.
        assert crawls(whole_load_s(ratio / 4, elapsed_s, arrivals_s), elapsed_s, 130, 900)
