"""One variant's quality, on the server of a session: every document of the corpus, one by one.

Questions come after them (`servetune.sessions.quality.questions`).

One request at a time, so that no other request in the batch decides how sums are rounded. It asks
`/v1/completions` for the log probability of each token and for how the document would go on: vLLM
computes the prompt's with `prompt_logprobs`, and then reads no prefix cache for it. Of each
position it tells the token that stands there and the most likely one.
"""

import hashlib
import json
import math
import time
from typing import Any

import httpx

from servetune.errors import UserError
from servetune.plan.blank import blank_quality
from servetune.plan.planned import PlannedQuality, PlannedQuestions
from servetune.progress import say
from servetune.records.paths import raw_folder
from servetune.records.quality import ROUNDS, Answered, Document, QualityRecord
from servetune.running import update
from servetune.sentences import refusal
from servetune.serving.ledger import LimitError
from servetune.serving.target import ServerError
from servetune.sessions.measure import LOG_TAIL_LINES, Bench, failed
from servetune.sessions.provenance import now
from servetune.sessions.quality.harness import HarnessError, run_tasks
from servetune.sessions.quality.questions import RefusedError, ask_questions
from servetune.sessions.spending import counting, granted, of_rows
from servetune.sessions.watch import TELL_EVERY_S
from servetune.study.rows import Row
from servetune.telemetry.sampler import wait_idle
from servetune.workloads.datasets import read_requests

CONTINUED_TOKENS = 32
"""The length of a continuation, where the corpus does not say `output_tokens`."""


UNUSABLE = (
    RefusedError,
    LimitError,
    UserError,
    httpx.HTTPError,
    OSError,
    LookupError,
    TypeError,
    ValueError,
)
"""What an answer that cannot be used raises."""


def measure_quality(bench: Bench, quality: PlannedQuality) -> QualityRecord:
    """Ask a server that is ready and idle but for this, and return the record.

    Raises:
        ServerError: the server died or hangs while it was asked for documents.
    """
    session, target, root = bench.session, bench.target, bench.root
    record = blank_quality(session, quality, bench.launch, target.command)
    record = record.model_copy(update={"started_at": now()})
    try:
        documents = _ask_all(bench, quality) if quality.corpus else []
        answers = _ask_questions(bench, quality.questions) if quality.questions else []
    except UNUSABLE as error:
        target.confirm()
        return failed(record, str(error), target.log_tail(LOG_TAIL_LINES))
    measured: dict[str, Any] = {"status": "ok", "documents": documents, "answers": answers}
    if quality.lm_eval:
        try:
            raw = raw_folder(session.study, quality.id, root)
            assert bench.tokenizer, "no quality is asked of an endpoint"
            tasks = run_tasks(session, quality.lm_eval, raw, target, bench.tokenizer, root)
            measured["tasks"] = tasks
        except HarnessError as error:
            measured["tasks_failed"] = f"lm-eval: {error}"
        except ServerError as error:
            measured["tasks_failed"] = f"lm-eval: the server {error}"
    return record.model_copy(update={**measured, "ended_at": now()})


def _ask_all(bench: Bench, quality: PlannedQuality) -> list[Document]:
    session, target = bench.session, bench.target
    rows = read_requests(bench.root / "data" / "workloads" / f"{quality.corpus}.jsonl")
    wanted = quality.documents or len(rows)
    if wanted > len(rows):
        raise UserError(
            f"{quality.corpus}: has {len(rows)} documents, but quality.documents is {wanted}"
        )
    wait_idle(target.counters)
    documents: list[Document] = []
    last_s = time.monotonic()
    with target.client(session.stall_timeout_s) as client:
        for row in rows[:wanted]:
            documents.append(ask(client, target.name, row))
            update(requests_done=len(documents), requests=wanted)
            if time.monotonic() - last_s > TELL_EVERY_S:
                last_s = time.monotonic()
                say(f"{session.variant}: quality: {len(documents)} of {wanted} documents")
    if not sum(document.tokens for document in documents):
        raise UserError(f"{quality.corpus}: no document has two tokens to score")
    return documents


def _ask_questions(bench: Bench, questions: PlannedQuestions) -> list[Answered]:
    session, target = bench.session, bench.target
    rows = read_requests(bench.root / "data" / "workloads" / f"{questions.dataset}.jsonl")
    wait_idle(target.counters)
    last_s = time.monotonic()

    def tell(done: int, wanted: int) -> None:
        nonlocal last_s
        update(requests_done=done, requests=wanted)
        if time.monotonic() - last_s > TELL_EVERY_S:
            last_s = time.monotonic()
            say(f"{session.variant}: quality: {done} of {wanted} answers")

    with (
        granted(target, of_rows(rows, ROUNDS)) as may_send,
        target.client(session.stall_timeout_s) as client,
    ):
        retries = may_send.retries if may_send else None
        count = counting(target)
        return ask_questions(client, target.name, questions, rows, tell, count, retries)


def ask(client: httpx.Client, model: str, row: Row) -> Document:
    """Score one document and have it continued greedily.

    `row` holds the `prompt`, and `output_tokens` for the length of the continuation.

    Raises:
        RefusedError: the server refuses, or answers without what was asked for.
        httpx.HTTPError: it does not answer.
    """
    request = {
        "model": model,
        "prompt": row["prompt"],
        "max_tokens": row.get("output_tokens") or CONTINUED_TOKENS,
        "temperature": 0,
        "prompt_logprobs": 1,
        "return_token_ids": True,
    }
    answer = client.post("/v1/completions", json=request)
    if not answer.is_success:
        raise RefusedError(
            f"the server refused a document: {refusal(answer.status_code, answer.text)}"
        )
    return read_answer(answer.json())


def read_answer(answer: dict[str, Any]) -> Document:
    """Read a completion that was asked for with `prompt_logprobs` and `return_token_ids`.

    Raises:
        RefusedError: it has neither, or a log probability that is no number.
    """
    choice = answer["choices"][0]
    positions, tokens = choice.get("prompt_logprobs"), choice.get("prompt_token_ids")
    if not positions or not tokens or choice.get("token_ids") is None:
        raise RefusedError("the server does not tell prompt_logprobs and token ids")
    # Nothing comes before the first token, so that it has no probability.
    scored = list(zip(tokens, positions, strict=True))[1:]
    logprobs = [position[str(token)]["logprob"] for token, position in scored]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in logprobs):
        raise RefusedError("the server tells a log probability that is no number")
    return Document(
        prompt_digest=hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:12],
        tokens=len(scored),
        logprob=round(math.fsum(logprobs), 6),
        top1=[int(min(position, key=lambda id: position[id]["rank"])) for _, position in scored],
        greedy=choice["token_ids"],
    )
