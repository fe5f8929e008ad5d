"""What answers at an address, by its first small requests."""

import math
from dataclasses import dataclass

import httpx

from servetune.check.asked import Asked
from servetune.check.way import Way, measure_way
from servetune.engines.registry import EMPTY, dialect_of_page
from servetune.errors import UserError
from servetune.serving.endpoint import MODELS, ApiError, Endpoint
from servetune.serving.ledger import Account
from servetune.serving.target import SCRAPE_TIMEOUT_S, ServerError


@dataclass(frozen=True)
class Opened:
    """An endpoint that answers: what of its API does, where its metrics are, and the way to it.

    `is_openai` tells one that takes no field beyond those of OpenAI's API.
    """

    endpoint: Endpoint
    api: str
    is_openai: bool
    metrics: list[str]
    way: Way


def open_endpoint(asked: Asked, key: str, headers: dict[str, str], account: Account) -> Opened:
    """Ask an endpoint for its models, a token and its metrics, and time the way to it.

    Raises:
        ServerError: it does not answer, or refuses.
        UserError: it has several models, and none is named.
    """

    def endpoint(name: str, metrics: list[str]) -> Endpoint:
        return Endpoint(
            address=asked.url,
            name=name,
            api_key=key,
            metrics=metrics,
            headers=headers,
            ca=str(asked.ca.absolute()) if asked.ca else "",
            apis=(),
            account=account,
        )

    model = asked.model or _only_model(endpoint("", []))
    metrics = asked.metrics or _found_metrics(endpoint(model, []))
    opened = endpoint(model, metrics)
    opened.wait_ready(math.inf, lambda _: None)
    api, is_openai = _api(opened)
    return Opened(opened, api, is_openai, metrics, measure_way(opened))


def _api(endpoint: Endpoint) -> tuple[str, bool]:
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
