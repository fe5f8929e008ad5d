"""What the stream of an answer tells of itself."""

import json

import pytest

from servetune.load.stream import CUT_SHORT, LONGEST_SENTENCE, Note, note_message, refusal


def noted(*messages: object) -> Note:
    note = Note()
    for message in messages:
        told = message if isinstance(message, str) else json.dumps(message)
        note_message(note, f"data: {told}")
    return note


CHUNK = {"model": "it", "choices": [{"text": " a"}]}
USAGE = {
    "model": "it",
    "choices": [],
    "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}},
}


def test_a_whole_answer_tells_its_usage_its_model_and_its_end() -> None:
    note = noted(CHUNK, USAGE, "[DONE]")
    assert (note.has_usage, note.cached_tokens, note.model) == (True, 4, "it")
    assert note.fault() is None


def test_an_answer_without_an_end_is_at_fault() -> None:
    assert noted(CHUNK, USAGE).fault() == CUT_SHORT


def test_an_error_in_the_stream_is_told() -> None:
    note = noted(CHUNK, {"error": {"message": "EngineCore died", "code": 500}}, "[DONE]")
    assert note.fault() == "in the stream: EngineCore died"
    assert noted({"error": "no room"}, "[DONE]").fault() == "in the stream: no room"


def test_a_text_that_speaks_of_errors_and_tokens_is_a_text() -> None:
    text = json.dumps({"error": 1, "prompt_tokens": 2})
    note = noted({"choices": [{"text": text}]}, "[DONE]")
    assert (note.fault(), note.has_usage) == (None, False)


def chat(**delta: str | None) -> dict[str, object]:
    return {"choices": [{"delta": delta}]}


ROLE = chat(role="assistant", content="")


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_a_part_of_the_text_and_may_stand_between_tokens_without_text(
    key: str,
) -> None:
    thought = [chat(**{key: text, "content": None}) for text in ("It is", " Oslo.")]
    note = noted(ROLE, *thought, chat(content="Oslo"), USAGE, "[DONE]")
    assert note.text_with("Oslo") == "It is Oslo.Oslo"
    assert note.textless_tokens > 10


def test_an_answer_that_is_all_reasoning_has_a_text() -> None:
    note = noted(ROLE, chat(reasoning="It is"), USAGE, "[DONE]")
    assert note.text_with("") == "It is"


def test_an_answer_without_reasoning_lacks_one_token_at_most() -> None:
    note = noted(ROLE, chat(content='the "reasoning": ""'), chat(content=""), USAGE, "[DONE]")
    assert note.text_with("the") == "the"
    assert note.textless_tokens == 1


EMPTY = [
    {"choices": [{"text": ""}]},
    chat(content=""),
    chat(content=None),
    {"choices": [{"delta": {}}]},
]


@pytest.mark.parametrize("empty", EMPTY, ids=str)
def test_what_follows_the_end_without_a_text_makes_the_text_not_known(empty: object) -> None:
    after = [empty, empty, empty]
    assert noted(CHUNK, *after, USAGE, "[DONE]").text_with(" a") is None
    assert noted(chat(reasoning="hm"), *after, USAGE, "[DONE]").text_with("") is None
    in_the_middle = noted(CHUNK, *after, CHUNK, empty, USAGE, "[DONE]")
    assert in_the_middle.text_with(" a a") == " a a"


def test_an_answer_without_any_text_is_one_of_no_tokens() -> None:
    assert noted(*[{"choices": [{"text": ""}]}] * 9, USAGE, "[DONE]").text_with("") == ""


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
