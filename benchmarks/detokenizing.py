"""What vLLM's detokenizer takes for a token that its tokenizer does not know, and for one it does.

Run: uv run python benchmarks/detokenizing.py

It feeds `DecodeStream` as vLLM's `FastIncrementalDetokenizer` does: behind the tokens of a prompt,
with random tokens of a vocabulary of 128,256, as dummy weights emit them.
"""

import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from servetune.models.words import write_words

ROOT = Path(__file__).parents[1]
VOCABULARY, OUTPUT_TOKENS = 128_256, 512
PROMPTS = (128, 512, 2048, 8192)


def main() -> None:
    """Print the table."""
    with TemporaryDirectory() as folder:
        words = Path(folder, "words")
        write_words(VOCABULARY, words)
        files = {"bytes": ROOT / "gallery/studies/shapes/tokenizer", "words": words}
        known = {
            name: Tokenizer.from_file(str(at / "tokenizer.json")) for name, at in files.items()
        }
    print("microseconds a token, behind prompts of so many tokens")
    print(f"{'tokenizer':<12}" + "".join(f"{tokens:>8}" for tokens in PROMPTS))
    for name, tokenizer in known.items():
        times = "".join(f"{token_us(tokenizer, tokens):>8.1f}" for tokens in PROMPTS)
        print(f"{name:<12}{times}")


def token_us(tokenizer: Tokenizer, prompt_tokens: int) -> float:
    """Return the time of a token after the first, in microseconds: the median of seven answers."""
    random = Random(0)
    took = []
    for _ in range(7):
        stream = DecodeStream(ids=[random.randrange(90) for _ in range(prompt_tokens)])
        emitted = [random.randrange(VOCABULARY) for _ in range(OUTPUT_TOKENS)]
        stream.step(tokenizer, emitted[0])
        began = time.perf_counter()
        for token in emitted[1:]:
            stream.step(tokenizer, token)
        took.append(time.perf_counter() - began)
    return 1e6 * sorted(took)[3] / (OUTPUT_TOKENS - 1)


if __name__ == "__main__":
    main()
