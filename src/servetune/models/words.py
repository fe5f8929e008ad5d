"""A tokenizer for architectures without weights: the characters, and a word for each further token.

Dummy weights emit any token of their vocabulary. vLLM's detokenizer holds what has no text yet
(`DecodeStream` of Hugging Face's tokenizers), and decodes it again with each token, behind the
whole prompt: with a tokenizer that does not know most tokens, the front end's time is not real
(benchmarks/detokenizing.py).
"""

import json
from itertools import count, islice, product
from pathlib import Path
from string import ascii_uppercase
from typing import Any

END = "<|end|>"
ASCII = 128
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def write_words(vocabulary: int, folder: Path, *, round_trip: bool = False) -> None:
    """Write a tokenizer of so many tokens, each of which has a text.

    A text is encoded byte by byte. With `round_trip` what tokens say is encoded as these very
    tokens.
    """
    tokenizer = _round_trip(vocabulary) if round_trip else _of_bytes(vocabulary)
    end = {"id": tokenizer["model"]["vocab"][END], "content": END, "special": True}
    end |= {"normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer |= {"version": "1.0", "added_tokens": [end]}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "model_max_length": 1_000_000,
    }
    if round_trip:
        config["clean_up_tokenization_spaces"] = False
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _of_bytes(vocabulary: int) -> dict[str, Any]:
    # Here, as few runs make one.
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = sorted(ByteLevel.alphabet())
    words = (f"\u0120w{id}" for id in range(len(alphabet) + 1, vocabulary))
    return {
        "pre_tokenizer": {**LEVEL, "use_regex": True},
        "decoder": {**LEVEL, "use_regex": True},
        "model": {"type": "BPE", "vocab": _numbered([*alphabet, END, *words]), "merges": []},
    }


def _round_trip(vocabulary: int) -> dict[str, Any]:
    """A word is a space and so many capitals. What is not ASCII reads `?`.

    A byte of a longer character is no text, so a token of one would not come back.
    """
    from tokenizers.pre_tokenizers import ByteLevel

    level = ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = [level.pre_tokenize_str(chr(byte))[0][0] for byte in range(ASCII)]
    length = next(n for n in count(1) if len(ascii_uppercase) ** n >= vocabulary)
    capitals = ("".join(letters) for letters in product(ascii_uppercase, repeat=length))
    words = (f"\u0120{word}" for word in islice(capitals, vocabulary - ASCII - 1))
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    split |= {"pattern": {"Regex": f" [A-Z]{{{length}}}|[\\s\\S]"}}
    return {
        "normalizer": {"type": "Replace", "pattern": {"Regex": r"[^\x00-\x7F]"}, "content": "?"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, {**LEVEL, "use_regex": False}],
        },
        "decoder": {**LEVEL, "use_regex": False},
        "model": {
            "type": "BPE",
            "vocab": _numbered([*alphabet, END, *words]),
            "merges": [],
            "ignore_merges": True,
        },
    }


def _numbered(tokens: list[str]) -> dict[str, int]:
    return {token: id for id, token in enumerate(tokens)}
