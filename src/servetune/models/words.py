"""A tokenizer for architectures without weights: the bytes, and a word for each further token.

Dummy weights emit any token of their vocabulary. vLLM's detokenizer holds what has no text yet
(`DecodeStream` of Hugging Face's tokenizers), and decodes it again with each token, behind the
whole prompt: with a tokenizer that does not know most tokens, the front end's time is not real
(benchmarks/detokenizing.py).
"""

import json
from pathlib import Path

END = "<|end|>"
BYTES = 256


def write_words(vocabulary: int, folder: Path) -> None:
    """Write a tokenizer of so many tokens. Each has a text; a text is encoded byte by byte."""
    # Here, as few runs make one.
    from tokenizers.pre_tokenizers import ByteLevel

    words = (f"\u0120w{id}" for id in range(BYTES + 1, vocabulary))
    vocab = {token: id for id, token in enumerate([*sorted(ByteLevel.alphabet()), END, *words])}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    end = {"id": BYTES, "content": END, "special": True, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{**end, "single_word": False, "lstrip": False, "rstrip": False}],
        "pre_tokenizer": {**level, "use_regex": True},
        "decoder": {**level, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "model_max_length": 1_000_000,
    }
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
