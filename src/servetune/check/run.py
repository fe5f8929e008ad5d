"""A check from its first small requests to its last load."""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from servetune.analysis.wording import plural
from servetune.check.asked import Asked
from servetune.check.levels import Level, next_clients, requests_for
from servetune.check.opening import Opened, open_endpoint
from servetune.check.watch import Watch
from servetune.errors import UserError
from servetune.load.client.driver import DRIVER, HEADERS
from servetune.load.generator import Destination, Job
from servetune.load.process import LoadClient, LoadError, LoadRefusedError
from servetune.load.request_table import aggregate, attained, request_table
from servetune.load.schedule import SCHEDULE, write_schedule
from servetune.progress import say
from servetune.records.loads import Load
from servetune.records.spending import Amount
from servetune.serving.ledger import Account, LimitError, ledger_folder
from servetune.serving.target import ServerError
from servetune.sessions.passed import from_caller
from servetune.sessions.spending import of_load
from servetune.study.datasets import TextDataset
from servetune.study.targets import SpendLimits
from servetune.workloads.draws import Streams
from servetune.workloads.prepare import prepare
from servetune.workloads.synthetic import text_rows

PROMPTS = 512
CLIENT_READY_S = 300.0

LONGEST = 0.3
"""Of all seconds, for one load: three of them are the least that a check tells anything by."""


@dataclass
class Check:
    """What a check found so far; `ended` says why it went no further."""

    asked: Asked
    opened: Opened
    levels: list[Level] = field(default_factory=list)
    spent: Amount = field(default_factory=Amount)
    load_s: float = 0.0
    ended: str = ""

    @property
    def model(self) -> str:
        """The model's name, as requests have it."""
        return self.opened.endpoint.name


class Checker:
    """Asks an endpoint what it is, and loads it step by step; what it found is in `check`."""

    def __init__(self, asked: Asked, folder: Path) -> None:
        """Ask the endpoint for its models and a token; `folder` takes schedules and answers.

        Raises:
            UserError: it does not answer, refuses, or the caller lacks a variable.
        """
        self._asked, self._folder = asked, folder
        self._ledger = f"check-{uuid.uuid4().hex}"
        key = from_caller([asked.key_env], "--key-env")[asked.key_env] if asked.key_env else ""
        values = from_caller(asked.headers_env.values(), "--header")
        headers = {name: values[variable] for name, variable in asked.headers_env.items()}
        self._account = Account(self._ledger, SpendLimits(requests=asked.requests), None, list)
        try:
            opened = open_endpoint(asked, key, headers, self._account)
        except ServerError as error:
            self._forget()
            raise UserError(f"{asked.url}: the endpoint {error}") from None
        except BaseException:
            self._forget()
            raise
        self._endpoint = opened.endpoint
        self.check = Check(asked, opened)

    def run(self) -> None:
        """Send one load after another until what it serves is known, or nothing is left to send."""
        check, asked = self.check, self._asked
        with self._client() as client:
            client.wait_ready(CLIENT_READY_S)
            while (clients := self._next()) is not None:
                left = asked.requests - self._account.spent.requests
                count = requests_for(clients, left)
                left_s = asked.seconds - check.load_s
                if count is None:
                    check.ended = f"at its limit of {asked.requests} requests"
                    return
                if left_s < self._least_s(clients):
                    check.ended = f"after {check.load_s:.0f} s of {asked.seconds:g} s of load"
                    return
                say(f"{plural(clients, 'client')}: {count} requests")
                try:
                    level = self._load(client, clients, count, left_s)
                    self._endpoint.confirm()
                except (LoadRefusedError, ServerError) as error:
                    check.ended = f"at {clients} clients, as it {error}"
                    return
                except (LoadError, LimitError) as error:
                    check.ended = f"at {clients} clients: {error}"
                    return
                check.levels.append(level)
                check.load_s += level.seconds
                say(f"  {_told(level)}")

    def close(self) -> None:
        """Count no more, and keep what was counted for nobody."""
        self.check.spent = self._account.spent
        self._forget()

    def _forget(self) -> None:
        for path in ledger_folder(self._ledger).glob("*"):
            path.unlink()
        ledger_folder(self._ledger).rmdir()

    def _next(self) -> int | None:
        return next_clients(self.check.levels, self._asked.targets.share, self._asked.highest)

    def _least_s(self, clients: int) -> float:
        """Return what two answers for each client take at least, by the last load."""
        answered = [level for level in self.check.levels if level.metrics]
        if not answered or answered[-1].metrics is None:
            return 0.0
        return 1.5 * (answered[-1].metrics.e2e_p50_ms or 0.0) / 1e3

    @contextmanager
    def _client(self) -> Iterator[LoadClient]:
        endpoint = self._endpoint
        environment = {DRIVER.key_variable: endpoint.api_key}
        if endpoint.headers:
            environment[HEADERS] = json.dumps(endpoint.headers)
        client = LoadClient(DRIVER.client, environment, self._folder / "client.log", self._folder)
        try:
            yield client
        finally:
            client.stop()

    def _load(self, client: LoadClient, clients: int, count: int, left_s: float) -> Level:
        endpoint, check = self._endpoint, self.check
        seconds = min(left_s, LONGEST * self._asked.seconds)
        load = Load(
            dataset="text",
            endpoint=check.opened.api,
            seed=len(check.levels),
            concurrency=clients,
            requests=count,
            duration_s=seconds,
            warmup_requests=0,
            prompt_salt=True,
            ignore_eos=not check.opened.is_openai,
        )
        spec = TextDataset(
            kind="text",
            requests=PROMPTS,
            input_words=self._asked.input_words,
            output_tokens=self._asked.output_tokens,
        )
        rows = list(text_rows(spec, Streams.of(spec, 0)))
        prepared = prepare(load, rows, None, f"{self._ledger} {clients}")
        schedule, raw = self._folder / SCHEDULE, self._folder / f"c{clients}"
        raw.mkdir()
        write_schedule(prepared.schedule, schedule)
        destination = Destination(
            url=endpoint.url,
            served_name=endpoint.name,
            tokenizer=None,
            schedule=schedule,
            raw=raw,
            keeps_connections=endpoint.keeps_connections,
            ca=endpoint.ca,
        )
        watch = Watch(endpoint)
        began = time.monotonic()
        with self._account.load(of_load(prepared)) as granted:
            job = Job(
                argv=DRIVER.arguments(load, destination),
                schedule=schedule,
                load=load,
                ledger=granted.path,
                retries=granted.retries,
            )
            with watch:
                try:
                    # Answers that are in flight then take no more than what is left of all.
                    client.run(job, left_s, lambda: None)
                except BaseException:
                    # It may send no more, before what it took is settled.
                    client.stop()
                    raise
        took_s = time.monotonic() - began
        requests = request_table(DRIVER.read(raw), prepared.schedule, load)
        limits_ms = self._asked.targets.limits_ms
        shares = {
            name: found.ratio
            for name, limit in limits_ms.items()
            if (found := attained(requests, {name: limit}))
        }
        both = attained(requests, limits_ms)
        errors = requests["error"].dropna()
        metrics = aggregate(requests, {}, load)
        return Level(
            clients=clients,
            sent=len(requests),
            metrics=metrics if metrics.completed_requests else None,
            shares=shares,
            within=both.ratio if both else 0.0,
            seconds=took_s,
            error=str(errors.iloc[0]) if len(errors) else None,
            **watch.highest,
        )


def _told(level: Level) -> str:
    if level.metrics is None:
        return f"no answer: {level.error}"
    metrics = level.metrics
    return (
        f"TTFT {metrics.ttft_p50_ms or 0:,.0f} ms, TPOT {metrics.tpot_p50_ms or 0:,.1f} ms,"
        f" {100 * level.within:.0f} % within the targets"
    )
