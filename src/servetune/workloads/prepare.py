"""What a load point needs before it is sent: rows of known length, a schedule, a warm server.

Where a dataset holds answers in place of their lengths, or a workload declares a maximum, only the
model's tokenizer can tell the lengths.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from servetune.errors import UserError
from servetune.load.classes import body_of, pooled_prompt
from servetune.load.client.refusals import is_refusal
from servetune.load.process import LoadError, LoadRefusedError
from servetune.load.schedule import ScheduledRequest, make_schedule
from servetune.records.loads import Load
from servetune.sentences import refusal
from servetune.study.generators import PATHS
from servetune.study.rows import Row, Turn, answer_of, continued, turns_of, unanswered
from servetune.workloads.salt import salted

Encode = Callable[[str], Any]
"""A tokenizer; its encodings have the token `ids` and their `offsets` in the text."""


@dataclass(frozen=True)
class Prepared:
    """A load point, ready to be sent.

    `warmup` holds the rows to send first; `rejected` and `truncated` count rows of the dataset
    that the workload's maxima left out or cut.
    """

    schedule: list[ScheduledRequest]
    warmup: list[Row]
    rejected: int
    truncated: int


def prepare(load: Load, rows: list[Row], checkpoint: Path | None, salt: str = "") -> Prepared:
    """Prepare a load point; its schedule refers to the prompts of the dataset's rows.

    With `prompt_salt` they begin with `salt`, and those of the warm-up with another one.

    Raises:
        UserError: no request is left, or a tokenizer is needed and missing.
    """
    encode = open_tokenizer(checkpoint) if needs_tokenizer(rows, load) else None
    sent = salted(rows, salt) if load.prompt_salt else rows
    kept, truncated = resolve(sent, load, encode)
    if not kept:
        raise UserError(
            f"{load.dataset}: every request is above max_input_tokens"
            f" {load.max_input_tokens} or max_output_tokens {load.max_output_tokens};"
            " raise them, or set over_length: truncate"
        )
    if load.arrivals == "trace" and any("arrival_s" not in row for row in rows):
        raise UserError(
            f"{load.dataset}: a row has no arrival_s; a trace needs it on every line, in seconds"
        )
    if load.history == "recorded" and (place := unanswered(rows)):
        raise UserError(
            f"{load.dataset}: {place}: has no answer, which history: recorded repeats in later"
            " turns; add answer, or use history: answers"
        )
    schedule = make_schedule(kept, load)
    asked = (load.requests or 0) + load.settle_requests + load.cooldown_requests
    if load.arrivals == "trace" and load.duration_s is None and len(schedule) < asked:
        raise UserError(
            f"{load.dataset}: the trace has {len(schedule)} requests, but the load point asks"
            f" for {asked}; lower requests, or give a duration_s"
        )
    first = kept
    if load.prompt_salt and load.warmup_requests:
        first, _ = resolve(salted(rows, f"{salt} warm-up"), load, encode)
    return Prepared(
        schedule=schedule,
        warmup=first[-load.warmup_requests :] if load.warmup_requests else [],
        rejected=len(rows) - len(kept),
        truncated=truncated,
    )


def needs_tokenizer(rows: list[Row], load: Load) -> bool:
    """Tell whether a load needs lengths that its dataset does not hold."""
    turns = [turn for row in rows for turn in turns_of(row)]
    has_answers = any("output_text" in turn for turn in turns)
    is_text = any(isinstance(turn.get("prompt", ""), str) for turn in turns)
    return has_answers or (load.max_input_tokens is not None and is_text)


def open_tokenizer(checkpoint: Path | None) -> Encode:
    """Open a checkpoint's `tokenizer.json`; raises UserError where it has none."""
    from tokenizers import Tokenizer

    if checkpoint is None:
        raise UserError(
            "the lengths of text need a tokenizer, which an endpoint does not have; use a dataset"
            " of kind random, or one with output_tokens and no max_input_tokens"
        )
    path = checkpoint / "tokenizer.json"
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; max_input_tokens, and output lengths taken from answers, need"
            " the model's fast tokenizer"
        )
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


def resolve(rows: list[Row], load: Load, encode: Encode | None) -> tuple[list[Row], int]:
    """Give every turn its `output_tokens`, and apply the maxima of a load.

    A row above a maximum is left out (`over_length: reject`) or cut to it (`truncate`). Of a
    conversation the input is the whole history: it ends before the turn that is too long. Returns
    the rows that are kept, with their `turns`, and how many of them were cut.
    """
    resolved = [(row, *_resolve_turns(turns_of(row), load, encode)) for row in rows]
    kept: list[Row] = [{**row, "turns": turns} for row, turns, _ in resolved if turns]
    return kept, sum(was_cut for _, turns, was_cut in resolved if turns)


def _resolve_turns(turns: list[Turn], load: Load, encode: Encode | None) -> tuple[list[Turn], bool]:
    """Return the turns that are kept, and whether something was cut."""
    most_input, most_output = load.max_input_tokens, load.max_output_tokens
    truncates = load.over_length == "truncate"
    kept: list[Turn] = []
    histories: list[int] = []
    was_cut = False
    for place, turn in enumerate(turns):
        prompt, output_tokens = turn.get("prompt", ""), _output_tokens(turn, encode)
        if most_output is not None and output_tokens > most_output:
            if not truncates:
                return kept, True
            output_tokens, was_cut = most_output, True
        if most_input is not None:
            said = json.dumps(turn["messages"]) if "messages" in turn else prompt
            encoding = encode(said) if isinstance(said, str) and encode else None
            size = len(encoding.ids) if encoding else len(said)
            before = continued(place, turn)
            history = 0 if before is None else histories[before]
            if history + size > most_input:
                if not truncates or kept or "messages" in turn:
                    return kept, True
                end = encoding.offsets[most_input - 1][1] if encoding else most_input
                prompt, size, was_cut = prompt[:end], most_input, True
            recorded = answer_of(turn) if load.history == "recorded" else None
            answer = len(encode(recorded).ids) if recorded and encode else output_tokens
            histories.append(history + size + answer)
        kept.append({**turn, "prompt": prompt, "output_tokens": output_tokens})
    return kept, was_cut


def _output_tokens(turn: Turn, encode: Encode | None) -> int:
    if "output_tokens" in turn:
        return turn["output_tokens"]
    assert encode is not None
    return max(1, len(encode(turn["output_text"]).ids))


def warm_up(
    client: httpx.Client,
    model: str,
    rows: list[Row],
    load: Load,
    count: Callable[[Row], Callable[[dict[str, Any] | None], None]] = lambda _: lambda _: None,
) -> None:
    """Send the first turns of some rows as the load will send its own.

    `count` is called before each is sent; what it returns then takes its usage, None of a refusal.

    Raises:
        LoadRefusedError: the server has too much to do, or fails.
        LoadError: it refused one.
        httpx.HTTPError: it did not answer.
    """

    def send(row: Row) -> None:
        turn = turns_of(row)[0]
        most = "max_completion_tokens" if load.is_chat else "max_tokens"
        content: dict[str, Any] = {"model": model}
        if load.is_pooled:
            name = next(iter(load.classes), None)
            content |= {**body_of(load, name), **pooled_prompt(load, turn["prompt"])}
        else:
            content |= {
                most: turn["output_tokens"],
                "temperature": 0,
                **({"ignore_eos": True} if load.ignore_eos else {}),
            }
        if load.is_chat:
            said = [{"role": "user", "content": turn["prompt"]}]
            content["messages"] = turn.get("messages", said)
        elif not load.is_pooled:
            content["prompt"] = turn["prompt"]
        settle = count(row)
        answer = client.post(PATHS[load.endpoint], json=content)
        usage = None
        # A server that streams whatever is asked for tells none here.
        with suppress(ValueError):
            usage = answer.json().get("usage") if answer.is_success else None
        settle(usage)
        if not answer.is_success:
            kind = LoadRefusedError if is_refusal(answer.status_code) else LoadError
            raise kind(f"the warm-up failed: {refusal(answer.status_code, answer.text)}")

    with ThreadPoolExecutor(max(1, min(len(rows), load.concurrency or len(rows)))) as pool:
        list(pool.map(send, rows))
