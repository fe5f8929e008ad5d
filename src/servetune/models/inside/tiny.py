"""Train a tiny Llama and its tokenizer on the corpus, in well under a minute on two CPU cores.

Small enough to try the whole pipeline without an accelerator, and trained rather than random:
speculative decoding and quantization behave as they do on a real model only if there is
something to guess and something to lose.

    python -m servetune.models.inside.tiny --out DIR --seed N
"""

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from servetune.corpus import training_text
from servetune.models.inside.writing import Progress, read_options, say

VOCABULARY = 2048
"""About as many as the corpus fills: it may run out of pairs to merge before."""

SPECIAL_TOKENS = ("<|begin|>", "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

# Few: a held-out text costs 0.66 nats a token at 128 tokens, as with more work.
CHARACTERS = 800_000
STEPS = 190
SHAPES = (*[(4, 128)] * 7, (1, 1024))
"""(batch, length) of the steps in turn; short rows train faster, long ones stretch the context."""
LEARNING_RATE = 5e-3
"""Of AdamW: higher than a large model's, as the steps are few. A judgement."""


def train_tokenizer(text: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of exactly `VOCABULARY` tokens that adds no token by itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.split("\n"), trainer)
    # The corpus may run out of pairs to merge; reserved tokens keep the size what was promised.
    missing = VOCABULARY - tokenizer.get_vocab_size()
    tokenizer.add_special_tokens([f"<|reserved_{index}|>" for index in range(missing)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|begin|>",
        eos_token="<|end|>",
        pad_token="<|pad|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=4096,
    )


def documents(text: str, seed: int) -> Iterator[str]:
    """The text cut between sentences; a third as a conversation, all ending with the end token."""
    random = Random(seed)
    sentences = text.split(". ")
    begin = 0
    while begin < len(sentences):
        size = 8 + int(random.random() * 56)
        part = ". ".join(sentences[begin : begin + size]).rstrip(".") + "."
        if random.random() < 1 / 3:
            # A question may stop within a sentence, as prompts do; the answer begins a new one.
            question, _, answer = part.partition(". ")
            words = question.split(" ")
            question = " ".join(words[: 1 + int(random.random() * len(words))])
            part = f"<|user|>{question}<|assistant|>{answer}"
        yield part + "<|end|>"
        begin += size


def token_stream(tokenizer: PreTrainedTokenizerFast, seed: int) -> torch.Tensor:
    """All documents of a training text as one row of token ids, shape (tokens,), int64."""
    texts = list(documents(training_text(seed, CHARACTERS), seed))
    return torch.tensor([token for ids in tokenizer(texts)["input_ids"] for token in ids])


def batches(stream: torch.Tensor, steps: int) -> Iterator[torch.Tensor]:
    """`steps` batches of windows at random places of the stream, shaped by `SHAPES` in turn."""
    for step in range(steps):
        batch, length = SHAPES[step % len(SHAPES)]
        starts = torch.randint(0, stream.numel() - length, (batch,))
        yield stream[starts[:, None] + torch.arange(length)]


def schedule(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear warm-up over a tenth, then a cosine to nothing."""
    warmup = max(1, steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def config() -> LlamaConfig:
    """4 layers, 256 hidden, 4 heads of 64 with 2 KV heads, about 4 million parameters."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
        # Larger than usual: a short training gets further from weights that already differ.
        initializer_range=0.08,
        # Faster to train than SDPA on a CPU, at this length. It is not saved.
        attn_implementation="eager",
    )


def fit(
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[torch.Tensor], tuple[torch.Tensor, str]],
    stream: torch.Tensor,
    progress: Progress,
) -> None:
    """Train for the steps of `progress` in float32, its products in bfloat16.

    `loss_of` a batch of token ids is its loss, and what else to say of it. The optimizer's
    learning rate is the peak.
    """
    steps = progress.steps
    (group,) = optimizer.param_groups
    peak = group["lr"]
    for step, ids in enumerate(batches(stream, steps)):
        group["lr"] = peak * schedule(step, steps)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, detail = loss_of(ids)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        optimizer.step()
        progress.show(step + 1, f"loss {loss.item():.3f}{detail}")


def train(stream: torch.Tensor) -> Any:
    """A `LlamaForCausalLM` trained for a fixed number of steps."""
    model: Any = LlamaForCausalLM(config())

    def loss_of(ids: torch.Tensor) -> tuple[torch.Tensor, str]:
        logits = model(ids, use_cache=False).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten()), ""

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.05
    )
    fit(optimizer, loss_of, stream, Progress("train target", STEPS))
    return model


def make(out: Path, seed: int) -> None:
    """Write tokenizer and trained model to `out`."""
    torch.set_num_threads(2)
    torch.manual_seed(seed)
    logging.disable_progress_bar()
    say("train tokenizer")
    tokenizer = train_tokenizer(training_text(seed, CHARACTERS))
    model = train(token_stream(tokenizer, seed))
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=1, pad_token_id=2)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    say(f"wrote {out}")


if __name__ == "__main__":
    options = read_options(argparse.ArgumentParser(description=__doc__))
    make(options.out, options.seed)
