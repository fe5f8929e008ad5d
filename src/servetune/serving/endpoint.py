"""An endpoint: a server that runs without us, of which only what it answers is known.

It is asked for its list of models, before a load and after one, and for nothing else; under load
its answers tell whether it lives.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx

from servetune.engines.counters import Counters, combined
from servetune.engines.dialect import Dialect, Tiers
from servetune.engines.registry import EMPTY, dialect_of_page
from servetune.records.sessions import ReplicaLaunch, ServerFacts
from servetune.sentences import refusal, sentence
from servetune.serving.target import HEALTH_TIMEOUT_S, SCRAPE_TIMEOUT_S, ServerError, counters_of
from servetune.study.secrets import redacted, secrets_of
from servetune.study.targets import API

MODELS = f"{API}/models"

SHOWN_MODELS = 5
"""Names in a message: more than one reads in a line."""


@dataclass(eq=False)
class Endpoint:
    """An endpoint by the address of its API, which ends in /v1, and the name of its model.

    `api_key` is sent to this address alone, and is empty where it asks for none; `metrics` are the
    addresses of its servers' metrics.
    """

    address: str
    name: str
    api_key: str = field(default="", repr=False)
    metrics: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "endpoint"
    is_here: ClassVar[bool] = False
    keeps_connections: ClassVar[bool] = True
    gateway_command: ClassVar[list[str]] = []

    def __post_init__(self) -> None:
        self.url = self.address.removesuffix(API)
        self.secrets = secrets_of([self.api_key])
        self.command: list[str] = []
        self.environment: dict[str, str] = {}
        self.opening = f"asking {self.address}"
        self._origin = _origin(httpx.URL(self.url))
        self._dialects: list[Dialect] = []

    @property
    def has_counters(self) -> bool:
        """Whether all its metrics are of an engine that is known."""
        return bool(self._dialects) and EMPTY not in self._dialects

    def start(self) -> None:
        """Do nothing: it runs."""

    def wait_ready(self, timeout_s: float, progress: Callable[[float], None]) -> None:
        """Ask once whether it serves the model, and of which engines its metrics are.

        Raises:
            ServerError: it does not answer, refuses, or has no such model.
        """
        answer = self._ask()
        if not answer.is_success:
            raise ServerError(self._safe(f"refuses {self.address}: {_refusal(answer)}"))
        try:
            served = [str(model["id"]) for model in answer.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise ServerError(
                f"lists no models at {self.url}{MODELS}; expected the OpenAI API"
            ) from None
        if self.name not in served:
            shown = ", ".join(served[:SHOWN_MODELS]) or "none"
            raise ServerError(
                self._safe(f"has no model {self.name}; expected one of {sentence(shown)}")
            )
        try:
            with self.client(SCRAPE_TIMEOUT_S) as client:
                self._dialects = [dialect_of_page(page) for page in self._pages(client)]
        except httpx.HTTPError as error:
            raise ServerError(self._safe(f"has no metrics: {_why(error)}")) from None

    def check(self) -> None:
        """Do nothing: the answers of a load tell."""

    def confirm(self) -> None:
        """Raise ServerError unless it still answers."""
        if (answer := self._ask()).is_server_error:
            raise ServerError(self._safe(f"fails at {self.url}{MODELS}: {_refusal(answer)}"))

    def is_healthy(self) -> bool:
        """Tell whether it still answers."""
        try:
            self.confirm()
        except ServerError:
            return False
        return True

    def stop(self) -> None:
        """Do nothing: it goes on."""

    def client(self, timeout_s: float) -> httpx.Client:
        """Return an HTTP client with its address, which sends the key there alone."""
        return httpx.Client(
            base_url=self.url, auth=self._with_key, timeout=timeout_s, trust_env=False
        )

    def scrape(self, client: httpx.Client) -> Counters:
        """Read its metrics by a client; raises httpx.HTTPError."""
        if not self.has_counters:
            return {}
        pages = zip(self._dialects, self._pages(client), strict=True)
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
        """Return what is known of it: nothing."""
        return ServerFacts()

    def choices(self) -> dict[str, Any]:
        """Return nothing: it has no log here."""
        return {}

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
        try:
            with self.client(HEALTH_TIMEOUT_S) as client:
                return client.get(MODELS)
        except httpx.HTTPError as error:
            raise ServerError(
                self._safe(f"does not answer at {self.url}{MODELS}: {_why(error)}")
            ) from None

    def _pages(self, client: httpx.Client) -> list[str]:
        return [client.get(address).raise_for_status().text for address in self.metrics]

    def _with_key(self, request: httpx.Request) -> httpx.Request:
        if self.api_key and _origin(request.url) == self._origin:
            request.headers["Authorization"] = f"Bearer {self.api_key}"
        return request

    def _safe(self, message: str) -> str:
        safe: str = redacted(message, self.secrets)
        return safe


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _refusal(answer: httpx.Response) -> str:
    return refusal(answer.status_code, answer.text)


def _why(error: httpx.HTTPError) -> str:
    return sentence(error) or type(error).__name__
