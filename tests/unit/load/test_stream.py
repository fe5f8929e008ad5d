"""What the stream of an answer tells of itself."""

import json

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
