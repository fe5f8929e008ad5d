"""What the stream of an answer tells of itself."""

import json

import pytest

from servetune.load.stream import CUT_SHORT, Note, note_message


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
