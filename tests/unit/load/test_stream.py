"""Why a server refused a request, in its own sentence."""

import json

import pytest

from servetune.sentences import LONGEST_SENTENCE, refusal


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "It is too long.", "code": 400}}, "HTTP 400: It is too long."),
        ({"object": "error", "message": "Too\nlong."}, "HTTP 400: Too long."),
        ({"error": "Unauthorized"}, "HTTP 400: Unauthorized"),
        ({"detail": "Not here."}, "HTTP 400: Not here."),
        ({"detail": [{"loc": ["body"]}]}, "HTTP 400 (Bad Request)"),
        ([], "HTTP 400 (Bad Request)"),
    ],
)
def test_a_refusal_is_told_in_the_servers_own_sentence(body: object, told: str) -> None:
    assert refusal(400, json.dumps(body)) == told


def test_a_refusal_without_a_sentence_is_told_by_its_status() -> None:
    assert refusal(502, "<html>Bad Gateway</html>") == "HTTP 502 (Bad Gateway)"
    assert refusal(599, "") == "HTTP 599"


PROMPT = "Once upon a time there was a prompt that nobody else should ever read."


@pytest.mark.parametrize(
    "message",
    [
        f"1 validation error: {{'type': 'missing', 'input': {{'prompt': '{PROMPT}'}}}}",
        "1 validation error [type=missing, input_value='Once upon a time', input_type=str]",
        f'Cannot parse "{PROMPT}" here',
        f"Cannot parse '{PROMPT}",
        f"Token ids {list(range(100, 200))} are out of vocabulary: Once",
        "The key of Bearer Once is not known.",
    ],
)
def test_what_a_server_repeats_of_a_request_is_not_told(message: str) -> None:
    told = refusal(400, json.dumps({"error": {"message": message}}))
    assert told.startswith("HTTP 400: ") and "..." in told
    assert "Once upon" not in told and "Bearer" not in told and "150" not in told


def test_a_sentence_with_apostrophes_is_told_whole() -> None:
    said = "This model's maximum context length is 512 tokens. However, it's above the prompt's."
    assert refusal(400, json.dumps({"error": {"message": said}})) == f"HTTP 400: {said}"


def test_a_refusal_has_a_bounded_length() -> None:
    told = refusal(400, json.dumps({"error": {"message": "word " * 1000}}))
    assert len(told) <= LONGEST_SENTENCE + len("HTTP 400: ...")
