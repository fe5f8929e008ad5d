"""What the corpus promises: the same text for the same seed, everywhere."""

import hashlib
from collections.abc import Callable
from itertools import islice

import pytest

from servetune.corpus import CORPUS_VERSION, passage, sentences, training_text

GOLDEN = {1: "600671a9691725320778ca80ace1c6a40029c7738e12b015aca32e2700f61ddc"}


def test_the_text_of_a_seed_is_the_same_everywhere() -> None:
    sample = training_text(7, 20_000) + "\n" + passage(7, 500)
    digest = hashlib.sha256(sample.encode()).hexdigest()
    assert GOLDEN.get(CORPUS_VERSION) == digest, "the text changed: raise CORPUS_VERSION"


def test_other_seeds_tell_other_stories() -> None:
    assert len({passage(seed, 60) for seed in range(200)}) == 200
    assert training_text(0, 1_000) != training_text(1, 1_000)


def test_a_prompt_is_not_in_the_training_text_even_with_the_same_seed() -> None:
    trained = training_text(3, 200_000)
    assert not any(passage(seed, 60) in trained for seed in range(50))


@pytest.mark.parametrize("words", [1, 7, 48, 1000])
def test_a_passage_has_as_many_words_as_asked(words: int) -> None:
    text = passage(5, words)
    assert len(text.split()) == words
    assert text == text.strip()


def test_a_longer_passage_goes_on_with_the_same_text() -> None:
    assert passage(5, 200).startswith(passage(5, 48) + " ")


def test_sentences_are_whole_and_do_not_end() -> None:
    many = list(islice(sentences(0), 5_000))
    assert len(many) == 5_000
    assert all(sentence.endswith(".") and sentence == sentence.strip() for sentence in many)
    assert not any("{" in sentence for sentence in many)


def test_training_text_is_as_long_as_asked_and_ends_with_a_sentence() -> None:
    text = training_text(2, 10_000)
    assert 10_000 <= len(text) < 10_300
    assert text.endswith(".")


def test_training_text_of_a_seed_begins_alike_at_every_length() -> None:
    assert training_text(2, 10_000).startswith(training_text(2, 1_000))


@pytest.mark.parametrize("call", [lambda: sentences(-1), lambda: passage(-1, 5)])
def test_a_negative_seed_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        call()


def test_an_empty_passage_is_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        passage(0, 0)
