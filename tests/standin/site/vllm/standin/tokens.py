"""Text to tokens and back, without a vocabulary: a token is a word, a sign or a space."""

import re
from zlib import crc32

VOCABULARY = 50_000
PIECE = re.compile(r" ?\w+| ?[^\w\s]+|\s")
TEXT = (
    "the a of to in and is it that for on with as at by from or an be this which not are but "
    "was can all will one has more if about when time so some what up out them than then make"
)
WORDS = TEXT.split()


def encode(text: str) -> list[int]:
    return [crc32(piece.encode()) % VOCABULARY for piece in PIECE.findall(text)]


def word_at(seed: int, position: int) -> str:
    """Return the word that follows a prompt, one token long: the same each time."""
    return " " + WORDS[crc32(f"{seed} {position}".encode()) % len(WORDS)]


def score(prompt: list[int], loss_nats: float) -> list[dict[str, dict[str, float]] | None]:
    """Tell the log probability of each token of a prompt, and the most likely one beside it.

    Of four tokens three are the most likely; `loss_nats` is taken from every one, and of each nat
    a tenth of the positions gets another favourite.
    """
    told: list[dict[str, dict[str, float]] | None] = [None]
    for position, token in enumerate(prompt[1:], start=1):
        chance = crc32(f"{token} {position}".encode()) % 1000 / 1000
        entries = {str(token): {"logprob": -0.2 - chance - loss_nats, "rank": 1}}
        if chance >= 0.75 - loss_nats / 10:
            entries[str(token)]["rank"] = 3
            entries[str((token + 1) % VOCABULARY)] = {"logprob": -0.1, "rank": 1}
        told.append(entries)
    return told
