"""The tokenizer for architectures without weights."""

from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from servetune.errors import UserError
from servetune.models.words import write_words
from servetune.plan.make import make_plan
from tests.paths import GALLERY

VOCABULARY = 5000


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("made") / "words"
    write_words(VOCABULARY, folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_each_token_that_dummy_weights_emit_has_a_text_at_once(tokenizer: Tokenizer) -> None:
    """vLLM's front end decodes what has none again and again."""
    assert tokenizer.get_vocab_size() == VOCABULARY
    emitted = [Random(0).randrange(257, VOCABULARY) for _ in range(200)]
    stream = DecodeStream(ids=tokenizer.encode("a prompt").ids)
    assert all(stream.step(tokenizer, id) for id in emitted)


def test_tokens_of_a_text_are_those_of_the_tokenizer_of_bytes(tokenizer: Tokenizer) -> None:
    alone = Tokenizer.from_file(str(GALLERY / "studies/shapes/tokenizer/tokenizer.json"))
    text = "Grüße, 世界 \n"
    assert tokenizer.encode(text).ids == alone.encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.token_to_id("<|end|>") == alone.token_to_id("<|end|>")


def test_what_tokens_say_is_encoded_as_these_very_tokens(tmp_path: Path) -> None:
    """Else a conversation's earlier answers are never found in a prefix cache."""
    write_words(VOCABULARY, tmp_path / "words", round_trip=True)
    tokenizer = Tokenizer.from_file(str(tmp_path / "words" / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == VOCABULARY
    end = tokenizer.token_to_id("<|end|>")
    random = Random(0)
    answers = [[random.randrange(VOCABULARY) for _ in range(200)] for _ in range(20)]
    # Many characters among the words, as well as few.
    answers += [[random.randrange(300) for _ in range(200)] for _ in range(20)]
    for answer in answers:
        said = [id for id in answer if id != end]
        stream = DecodeStream(ids=tokenizer.encode("a prompt").ids)
        assert "".join(stream.step(tokenizer, id) or "" for id in said) == tokenizer.decode(said)
        assert tokenizer.encode(tokenizer.decode(said)).ids == said
    assert len(tokenizer.encode("Grüße, WORLD\n").ids) == 13


def test_a_tokenizer_alone_is_not_served(tmp_path: Path) -> None:
    study = (GALLERY / "studies" / "h100-detokenizing.yaml").read_text()
    assert "{model: llama-8b-fp8}" in study
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "shapes").symlink_to(GALLERY / "studies" / "shapes")
    served = study.replace("{model: llama-8b-fp8}", "{model: words}")
    (tmp_path / "studies" / "words.yaml").write_text(served)
    with pytest.raises(UserError, match=r"models\.words: is a tokenizer alone"):
        make_plan({"study": "words"}, tmp_path)
