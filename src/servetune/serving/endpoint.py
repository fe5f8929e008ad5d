"""An endpoint: a server that runs without us, of which only what it answers is known.

Before a load it is asked for its list of models and for one token, after one for the list again,
and for nothing else; under load its answers tell whether it lives. What it tells of itself is its
fingerprint: one that changes is another server behind the same address.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import httpx

from servetune.engines.counters import Counters, combined
from servetune.engines.dialect import Dialect, Tiers
from servetune.engines.registry import DIALECTS, EMPTY, dialect_of_page
from servetune.records.sessions import ReplicaLaunch, ServerFacts
from servetune.records.spending import Amount
from servetune.sentences import refusal, sentence
from servetune.serving.causes import is_of_model, why_no_answer, why_refused
from servetune.serving.fingerprint import Fingerprint, changes, of_model, of_pages
from servetune.serving.ledger import Account
from servetune.serving.target import (
    HEALTH_TIMEOUT_S,
    SCRAPE_TIMEOUT_S,
    EndedError,
    ServerError,
    counters_of,
)
from servetune.study.generators import PATHS
from servetune.study.secrets import redacted, secrets_of
from servetune.study.targets import API

MODELS = f"{API}/models"

SHOWN_MODELS = 5
"""Names in a message: more than one reads in a line."""

FIRST_TIMEOUT_S = 60.0
"""For one token, also where a server that is full has to get round to it."""

SMALL = Amount(requests=1, input_tokens=32, output_tokens=1)
"""The most that the small first request takes: a word, what a template adds, and a token."""


NOT_THERE = (400, 404, 405, 415, 422, 501)
"""By which a server says that it has no such path, or field."""


class ApiError(ServerError):
    """A part of the API, or a field of a request, that an endpoint has not."""


SAID = "Hello"
SMALL_BODY: dict[str, dict[str, Any]] = {
    "completions": {"prompt": SAID, "max_tokens": 1},
    "chat": {"messages": [{"role": "user", "content": SAID}], "max_completion_tokens": 1},
    "embeddings": {"input": SAID},
    "rerank": {"query": SAID, "documents": [SAID]},
}
"""The least that each part of the API can be asked."""

ANSWERED = ("choices", "data", "results")
"""What holds an answer: of text, of embeddings, of a rerank."""


@dataclass(eq=False)
class Endpoint:
    """An endpoint by the address of its API, which ends in /v1, and the name of its model.

    `api_key` and `headers` are sent to this address alone; `api_key` is empty where it asks for
    none. `metrics` are the addresses of its servers' metrics, `dialect` the name of their engine,
    where it is declared, `apis` what of the API the loads use, `account` what counts its requests.
    """

    address: str
    name: str
    api_key: str = field(default="", repr=False)
    metrics: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    ca: str = ""
    dialect: str | None = None
    apis: tuple[str, ...] = ("completions",)
    account: Account | None = None
    kind: ClassVar[str] = "endpoint"
    is_here: ClassVar[bool] = False
    gateway_command: ClassVar[list[str]] = []

    def __post_init__(self) -> None:
        self.url = self.address.removesuffix(API)
        self.secrets = secrets_of([self.api_key, *self.headers.values()])
        self.command: list[str] = []
        self.environment: dict[str, str] = {}
        self.opening = f"asking {self.address}"
        self.fingerprint: Fingerprint = {}
        self._origin = _origin(httpx.URL(self.url))
        self._dialects: list[Dialect] = []
        self._pages: list[str] = []

    @property
    def has_counters(self) -> bool:
        """Whether all its metrics are of an engine that is known."""
        return bool(self._dialects) and EMPTY not in self._dialects

    @property
    def keeps_connections(self) -> bool:
        """Whether it keeps a connection after a stream, as its engine does."""
        return self._engine.keeps_connections

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Read once: a host's certificates take 30 ms of its processors.
        return ssl.create_default_context(cafile=self.ca or None)

    @property
    def _engine(self) -> Dialect:
        """The engine behind it: as declared, or as its metrics tell."""
        if self.dialect in DIALECTS:
            return DIALECTS[self.dialect]
        return self._dialects[0] if self._dialects else EMPTY

    def start(self) -> None:
        """Do nothing: it runs."""

    def wait_ready(self, timeout_s: float, progress: Callable[[float], None]) -> None:
        """Ask once whether it serves the model, for a token, and of which engines its metrics are.

        Raises:
            ServerError: it does not answer, refuses, or has no such model.
        """
        model = self._model(self._ask())
        for api in self.apis:
            self.ask_token(api)
        try:
            with self.client(SCRAPE_TIMEOUT_S) as client:
                self._pages = self._read_pages(client)
        except httpx.HTTPError as error:
            raise ServerError(self._safe(f"has no metrics: {_why(error)}")) from None
        self._dialects = [self._dialect_of(page) for page in self._pages]
        self.fingerprint |= self._observed(model)

    def check(self) -> None:
        """Do nothing: the answers of a load tell."""

    def confirm(self) -> None:
        """Ask whether it still answers, and is what it was.

        Raises:
            EndedError: it is another one now.
            ServerError: it does not answer, or fails.
        """
        answer = self._ask()
        if answer.is_server_error:
            raise ServerError(self._safe(why_refused(answer, has_key=bool(self.api_key))))
        if not answer.is_success:
            # A list of models that is rate limited tells nothing of what serves.
            return
        with self.client(SCRAPE_TIMEOUT_S) as client:
            try:
                self._pages = self._read_pages(client)
            except httpx.HTTPError:
                self._pages = []
        told = changes(self.fingerprint, self._observed(self._model(answer)))
        if told:
            raise EndedError(self._safe(f"is another one now: {told}"))

    def is_healthy(self) -> bool:
        """Tell whether it still answers, and is what it was."""
        try:
            self.confirm()
        except ServerError:
            return False
        return True

    def leave(self) -> None:
        """Do nothing: it goes on."""

    def client(self, timeout_s: float) -> httpx.Client:
        """Return an HTTP client with its address, which sends key and headers there alone."""
        return httpx.Client(
            base_url=self.url,
            auth=self._with_key,
            timeout=timeout_s,
            trust_env=False,
            verify=self._tls,
        )

    def scrape(self, client: httpx.Client) -> Counters:
        """Read its metrics by a client; raises httpx.HTTPError."""
        if not self.has_counters:
            return {}
        pages = zip(self._dialects, self._read_pages(client), strict=True)
        return combined([dialect.page(page) for dialect, page in pages])

    def counters(self, tries: int = 1) -> Counters:
        """Return its metrics now; empty where they do not answer after so many tries."""
        return counters_of(self, tries)

    def gateway_counters(self) -> dict[str, float]:
        """Return nothing: what stands before it is not known."""
        return {}

    def replicas(self, versions: Mapping[str, str], info: dict[str, Any]) -> list[ReplicaLaunch]:
        """Return nothing: how many servers it has is not known."""
        return []

    def reset_prefix_cache(self, *, has_tiers: bool = False) -> None:
        """Do nothing: whether it keeps what it is sent is not known."""

    def info(self) -> dict[str, Any]:
        """Return nothing: it does not tell."""
        return {}

    def facts(self, versions: Mapping[str, str], info: dict[str, Any]) -> ServerFacts:
        """Return what the metrics of a single server tell of it; nothing of several."""
        if len(self._pages) != 1:
            return ServerFacts()
        return self._engine.facts("", self._pages[0], {}, None, self.fingerprint.get("version"))

    def choices(self) -> dict[str, Any]:
        """Return its fingerprint: it has no log here."""
        return {"fingerprint": self.fingerprint}

    def tiers(self, info: Mapping[str, Any], arguments: Mapping[str, Any]) -> Tiers:
        """Return none: they are not known."""
        return Tiers()

    def log_size(self) -> tuple[int, ...]:
        """Return nothing: it has no log here."""
        return ()

    def load_log(self, began: tuple[int, ...], ended: tuple[int, ...]) -> dict[str, Any]:
        """Return nothing: it has no log here."""
        return {}

    def log_tail(self, lines: int) -> list[str]:
        """Return nothing: it has no log here."""
        return []

    def _ask(self) -> httpx.Response:
        """Ask for its models; raises ServerError where it does not answer."""
        return self._answer("GET", MODELS, HEALTH_TIMEOUT_S)

    def _answer(
        self, method: str, path: str, timeout_s: float, content: dict[str, Any] | None = None
    ) -> httpx.Response:
        try:
            with self.client(timeout_s) as client:
                return client.request(method, path, json=content)
        except httpx.HTTPError as error:
            why = why_no_answer(error, httpx.URL(self.url))
            raise ServerError(self._safe(f"does not answer at {self.url}{path}: {why}")) from None
        except OSError as error:
            raise ServerError(
                f"cannot be asked: ca: {self.ca}: {error.strerror or error}"
            ) from None

    def _model(self, answer: httpx.Response) -> dict[str, Any]:
        """Return what a list of models tells of the one that is asked for.

        One that has no such list tells nothing; the answer of the model itself does.

        Raises:
            ServerError: it is refused, is no list of models, or lacks the model.
        """
        if answer.status_code == httpx.codes.NOT_FOUND and self.apis:
            return {}
        served = self._listed(answer)
        if self.name not in served:
            shown = ", ".join([*served][:SHOWN_MODELS]) or "none"
            raise ServerError(
                self._safe(f"has no model {self.name}; expected one of {sentence(shown)}")
            )
        model: dict[str, Any] = served[self.name]
        return model

    def models(self) -> list[str]:
        """Return the names of the models that it lists; raises ServerError."""
        return [*self._listed(self._ask())]

    @property
    def engine_title(self) -> str:
        """The engine behind it, as a sentence names it; empty where it is not known."""
        return self._engine.family.title

    def ask_token(self, api: str, more: Mapping[str, Any] | None = None) -> None:
        """Ask for one token, with more fields in the request.

        Raises:
            ApiError: this part of its API, or a field, is not there.
            ServerError: it does not answer, or refuses.
        """
        if self.account:
            self.account.sending(SMALL)
        body = {"model": self.name, **SMALL_BODY[api], **(more or {})}
        answer = self._answer("POST", PATHS[api], FIRST_TIMEOUT_S, body)
        if not answer.is_success:
            if is_of_model(answer):
                why = refusal(answer.status_code, answer.text)
                raise ServerError(self._safe(f"has no model {self.name}: {why}"))
            kind = ApiError if answer.status_code in NOT_THERE else ServerError
            raise kind(self._safe(why_refused(answer, has_key=bool(self.api_key))))
        try:
            told = answer.json()
            is_answer = any(told.get(name) for name in ANSWERED)
            tokens = (told.get("usage") or {}).get("completion_tokens") or 0
        except (ValueError, LookupError, TypeError, AttributeError):
            is_answer = False
        if not is_answer:
            raise ServerError(
                f"answers {self.url}{PATHS[api]} with something else; expected the OpenAI API"
            )
        if tokens > 1:
            raise ApiError(
                f"answers {PATHS[api]} with {tokens} tokens where one was asked for, so that no"
                " limit would hold"
            )
        if self.account:
            self.account.settle(
                SMALL, Amount(requests=1, input_tokens=SMALL.input_tokens, output_tokens=tokens)
            )
        if said_by := told.get("system_fingerprint"):
            self.fingerprint["system_fingerprint"] = sentence(said_by)

    def _listed(self, answer: httpx.Response) -> dict[str, dict[str, Any]]:
        """Return the models of a list by their names; raises ServerError where it is none."""
        if not answer.is_success:
            raise ServerError(self._safe(why_refused(answer, has_key=bool(self.api_key))))
        try:
            return {str(model["id"]): model for model in answer.json()["data"]}
        except (ValueError, LookupError, TypeError):
            raise ServerError(
                f"lists no models at {self.url}{MODELS}; expected the OpenAI API"
            ) from None

    def _observed(self, model: dict[str, Any]) -> Fingerprint:
        """Return what it tells of itself: of the model, by its engine, and by its metrics."""
        engine = self._engine
        version = None
        if engine is not EMPTY:
            try:
                with self.client(SCRAPE_TIMEOUT_S) as client:
                    version = engine.version(client)
            except (httpx.HTTPError, ValueError, LookupError, TypeError):
                version = None
        told = {**of_model(model), **of_pages(self._dialects, self._pages)}
        return {**told, "version": version} if version else told

    def _dialect_of(self, page: str) -> Dialect:
        return DIALECTS[self.dialect] if self.dialect in DIALECTS else dialect_of_page(page)

    def _read_pages(self, client: httpx.Client) -> list[str]:
        return [client.get(address).raise_for_status().text for address in self.metrics]

    def _with_key(self, request: httpx.Request) -> httpx.Request:
        if _origin(request.url) == self._origin:
            if self.api_key:
                request.headers["Authorization"] = f"Bearer {self.api_key}"
            request.headers.update(self.headers)
        return request

    def _safe(self, message: str) -> str:
        safe: str = redacted(message, self.secrets)
        return safe


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _why(error: httpx.HTTPError) -> str:
    return sentence(error) or type(error).__name__
