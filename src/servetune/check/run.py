"""A check from its first small requests to its last load."""

import json
import math
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from servetune.check.asked import Asked
from servetune.check.levels import Level, next_clients, requests_for
from servetune.check.way import Way, measure_way
from servetune.engines.registry import EMPTY, dialect_of_page
from servetune.errors import UserError
from servetune.load.client.driver import DRIVER, HEADERS
from servetune.load.generator import Destination, Job
from servetune.load.process import LoadClient, LoadError
from servetune.load.request_table import aggregate, attained, request_table
from servetune.load.schedule import SCHEDULE, write_schedule
from servetune.progress import say
from servetune.records.loads import Load
from servetune.records.spending import Amount
from servetune.serving.endpoint import MODELS, ApiError, Endpoint
from servetune.serving.ledger import Account, LimitError, ledger_folder
from servetune.serving.target import SCRAPE_TIMEOUT_S, ServerError
from servetune.sessions.passed import from_caller
from servetune.sessions.spending import of_load
from servetune.study.datasets import TextDataset
from servetune.study.targets import SpendLimits
from servetune.workloads.draws import Streams
from servetune.workloads.prepare import prepare
from servetune.workloads.synthetic import text_rows

PROMPTS = 512
SAMPLE_EVERY_S = 0.25
CLIENT_READY_S = 300.0
ANSWERS_S = 300.0
"""For the answers that are in flight when the time of a load is over."""

LONGEST = 0.3
"""Of all seconds, for one load: three of them are the least that a check tells anything by."""


@dataclass
class Check:
    """What a check found so far; `ended` says why it went no further."""

    asked: Asked
    model: str
    api: str
    is_openai: bool
    metrics: list[str]
    way: Way
    fingerprint: dict[str, str]
    engine: str
    levels: list[Level] = field(default_factory=list)
    spent: Amount = field(default_factory=Amount)
    load_s: float = 0.0
    ended: str = ""


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
            self._endpoint, self.check = self._open(key, headers)
        except ServerError as error:
            self._forget()
            raise UserError(f"{asked.url}: the endpoint {error}") from None
        except BaseException:
            self._forget()
            raise

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
                say(f"{clients} clients: {count} requests" if clients > 1 else f"1 client: {count}")
                try:
                    level = self._load(client, clients, count, min(left_s, LONGEST * asked.seconds))
                except (LoadError, LimitError, ServerError) as error:
                    check.ended = f"at {clients} clients, as it {error}"
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

    def _load(self, client: LoadClient, clients: int, count: int, seconds: float) -> Level:
        endpoint, check = self._endpoint, self.check
        load = Load(
            dataset="text",
            endpoint=check.api,
            seed=len(check.levels),
            concurrency=clients,
            requests=count,
            duration_s=seconds,
            warmup_requests=0,
            prompt_salt=True,
            ignore_eos=not check.is_openai,
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
        watch = _Watch(endpoint)
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
                    client.run(job, seconds + ANSWERS_S, lambda: None)
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

    def _open(self, key: str, headers: dict[str, str]) -> tuple[Endpoint, Check]:
        asked = self._asked
        address = asked.url

        def endpoint(name: str, apis: tuple[str, ...], metrics: list[str]) -> Endpoint:
            return Endpoint(
                address=address,
                name=name,
                api_key=key,
                metrics=metrics,
                headers=headers,
                ca=str(asked.ca.absolute()) if asked.ca else "",
                apis=apis,
                account=self._account,
            )

        model = asked.model or _only_model(endpoint("", (), []))
        metrics = asked.metrics or _found_metrics(endpoint(model, (), []))
        opened = endpoint(model, (), metrics)
        opened.wait_ready(math.inf, lambda _: None)
        api, is_openai = self._api(opened)
        way = measure_way(opened)
        return opened, Check(
            asked=asked,
            model=model,
            api=api,
            is_openai=is_openai,
            metrics=metrics,
            way=way,
            fingerprint=opened.fingerprint,
            engine=opened.engine_title,
        )

    def _api(self, endpoint: Endpoint) -> tuple[str, bool]:
        """Find out what of the API answers one token, and whether it takes more than OpenAI's.

        Raises:
            ServerError: nothing does.
        """
        reasons: list[ServerError] = []
        for api in ("chat", "completions"):
            for more in ({"ignore_eos": True}, {}):
                try:
                    endpoint.ask_token(api, more)
                except ApiError as error:
                    reasons.append(error)
                else:
                    return api, not more
        raise reasons[0]


class _Watch:
    """Samples what a server tells while it is loaded; keeps the highest of each."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._seen: dict[str, float] = {}

    @property
    def highest(self) -> dict[str, Any]:
        """The fields of a level."""
        waiting = self._seen.get("requests_waiting")
        running = self._seen.get("requests_running")
        return {
            "kv_cache_ratio": self._seen.get("kv_cache_usage_ratio"),
            "waiting": None if waiting is None else int(waiting),
            "running": None if running is None else int(running),
        }

    def __enter__(self) -> None:
        if self._endpoint.has_counters:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _sample(self) -> None:
        with self._endpoint.client(SCRAPE_TIMEOUT_S) as client:
            while not self._stop.wait(SAMPLE_EVERY_S):
                try:
                    counters = self._endpoint.scrape(client)
                except httpx.HTTPError:
                    continue
                for name, value in counters.items():
                    self._seen[name] = max(value, self._seen.get(name, value))


def _only_model(endpoint: Endpoint) -> str:
    """Return the one model that an endpoint lists; raises ServerError or UserError."""
    names = endpoint.models()
    if len(names) != 1:
        told = ", ".join(names[:5]) or "none"
        raise UserError(f"--model: missing; expected one of those at {MODELS}: {told}")
    return names[0]


def _found_metrics(endpoint: Endpoint) -> list[str]:
    """Return where the endpoint has metrics of a known engine; empty where it has none."""
    address = f"{endpoint.url}/metrics"
    try:
        with endpoint.client(SCRAPE_TIMEOUT_S) as client:
            answer = client.get(address)
    except (httpx.HTTPError, OSError):
        # Why it does not answer is told when it is asked for more.
        return []
    is_known = answer.is_success and dialect_of_page(answer.text) is not EMPTY
    return [address] if is_known else []


def _told(level: Level) -> str:
    if level.metrics is None:
        return f"no answer: {level.error}"
    metrics = level.metrics
    return (
        f"TTFT {metrics.ttft_p50_ms or 0:,.0f} ms, TPOT {metrics.tpot_p50_ms or 0:,.1f} ms,"
        f" {100 * level.within:.0f} % within the targets"
    )
