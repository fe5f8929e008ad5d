"""Questions with answers to check, each asked twice of a server: in two rounds over all of them.

What an answer changes between the rounds, the server does by itself: the noise that a change of
the variant has to exceed. They are sent without a stream, greedily, one at a time unless the study
says otherwise.
"""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx

from servetune.errors import UserError
from servetune.plan.planned import PlannedQuestions
from servetune.records.quality import ROUNDS, Answered
from servetune.sentences import refusal
from servetune.study.checked import expected, judge
from servetune.study.generators import PATHS
from servetune.study.rows import Row

SHOWN_CHARACTERS = 300
"""Of a question or an answer in a record, which is in Git: some sentences."""

PUT_OFF_S, LONGEST_PUT_OFF_S, PUT_OFFS = 1.0, 60.0, 5
"""After a 429 that says no time; at most; and how often, as a question may be sent later."""


NO_MORE = object()
Settle = Callable[[dict[str, Any] | None], None]


class RefusedError(Exception):
    """A server that does not answer what was asked; the message says why, in its own words."""


class _Said(NamedTuple):
    """An answer, and whether it ended at the longest length."""

    text: str
    is_cut: bool


def ask_questions(
    client: httpx.Client,
    model: str,
    asked: PlannedQuestions,
    rows: list[Row],
    tell: Callable[[int, int], None],
    count: Callable[[Row], Settle] = lambda _: lambda _: None,
    retries: int | None = None,
) -> list[Answered]:
    """Ask each question of a dataset as often as there are rounds; `tell` counts the answers.

    `count` is called before each is sent, and what it returns with its usage; `retries` is how
    many may be sent again, None of a server of ours.

    Raises:
        RefusedError: the server refuses one, or answers without a text.
        UserError: the dataset holds something else than questions.
        httpx.HTTPError: it does not answer.
    """
    if not rows or any("check" not in row for row in rows):
        raise UserError(f"{asked.dataset}: holds no questions with answers to check")
    again = count_down(retries)
    send = partial(_ask, client, model, asked.endpoint, count, again)
    said: list[list[_Said]] = []
    with ThreadPoolExecutor(asked.concurrency) as pool:
        for _ in range(ROUNDS):
            answers: list[_Said] = []
            for answer in pool.map(send, rows):
                answers.append(answer)
                tell(len(said) * len(rows) + len(answers), ROUNDS * len(rows))
            said.append(answers)
    return [_answered(row, answers) for row, *answers in zip(rows, *said, strict=True)]


def count_down(retries: int | None) -> Iterator[None]:
    """Yield as often as a question may be sent again."""
    return itertools.repeat(None) if retries is None else iter([None] * retries)


def _ask(
    client: httpx.Client,
    model: str,
    endpoint: str,
    count: Callable[[Row], Settle],
    again: Iterator[None],
    row: Row,
) -> _Said:
    is_chat, most = endpoint == "chat", row["output_tokens"]
    prompt = row["prompt"]
    content: dict[str, Any] = (
        {"messages": [{"role": "user", "content": prompt}], "max_completion_tokens": most}
        if is_chat
        else {"prompt": prompt, "max_tokens": most}
    )
    for put_off in range(PUT_OFFS + 1):
        settle = count(row)
        answer = client.post(PATHS[endpoint], json={"model": model, "temperature": 0, **content})
        settle((answer.json().get("usage") or {}) if answer.is_success else None)
        if answer.status_code != HTTPStatus.TOO_MANY_REQUESTS or put_off == PUT_OFFS:
            break
        if next(again, NO_MORE) is NO_MORE:
            break
        time.sleep(_put_off_s(answer))
    if not answer.is_success:
        raise RefusedError(
            f"the server refused a question: {refusal(answer.status_code, answer.text)}"
        )
    choice = answer.json()["choices"][0]
    text = choice["message"].get("content") if is_chat else choice["text"]
    # A model that only reasoned has said nothing.
    return _Said(str(text or ""), choice.get("finish_reason") == "length")


def _put_off_s(answer: httpx.Response) -> float:
    after = answer.headers.get("Retry-After", "")
    seconds = float(after) if after.replace(".", "", 1).isdecimal() else PUT_OFF_S
    return min(seconds, LONGEST_PUT_OFF_S)


def _answered(row: Row, answers: list[_Said]) -> Answered:
    check = row["check"]
    return Answered(
        question=row["id"],
        asked=_shortened(str(row["prompt"])),
        expected=_shortened(expected(check)),
        right=[judge(check, each.text) for each in answers],
        answers=[_shortened(each.text) for each in answers],
        digests=[hashlib.sha256(each.text.encode()).hexdigest()[:12] for each in answers],
        cut=sum(each.is_cut for each in answers),
    )


def _shortened(text: str) -> str:
    """Keep the beginning and the end, which holds the result of an answer that reasons."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    third = SHOWN_CHARACTERS // 3
    return f"{text[:third]} \N{HORIZONTAL ELLIPSIS} {text[-2 * third :]}"
