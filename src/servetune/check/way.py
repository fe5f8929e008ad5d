"""The way to a server: name, connection, TLS, and a small request, each timed."""

import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

import httpx

from servetune.serving.endpoint import MODELS, Endpoint

TRIES = 3
CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Way:
    """Medians in ms; None: there is none, as of TLS to http://.

    `request_ms` is a small request on a connection that stands: there, through whatever is between,
    and back.
    """

    name_ms: float | None
    connect_ms: float | None
    tls_ms: float | None
    request_ms: float | None


def measure_way(endpoint: Endpoint) -> Way:
    """Time the way to an endpoint that answers."""
    url = httpx.URL(endpoint.url)
    name_ms: list[float] = []
    connect_ms: list[float] = []
    tls_ms: list[float] = []
    for _ in range(TRIES):
        with suppress(OSError):
            _connect(url, endpoint, name_ms, connect_ms, tls_ms)
    request_ms: list[float] = []
    with suppress(httpx.HTTPError), endpoint.client(CONNECT_TIMEOUT_S) as client:
        client.get(MODELS)
        for _ in range(TRIES):
            began = time.perf_counter()
            client.get(MODELS)
            request_ms.append(_ms(began))
    return Way(
        *(median(each) if each else None for each in (name_ms, connect_ms, tls_ms, request_ms))
    )


def _connect(
    url: httpx.URL,
    endpoint: Endpoint,
    name_ms: list[float],
    connect_ms: list[float],
    tls_ms: list[float],
) -> None:
    port = url.port or (443 if url.scheme == "https" else 80)
    began = time.perf_counter()
    found = socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
    if found[0][4][0] != url.host:
        name_ms.append(_ms(began))
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as plain:
        plain.settimeout(CONNECT_TIMEOUT_S)
        began = time.perf_counter()
        plain.connect(address)
        connect_ms.append(_ms(began))
        if url.scheme != "https":
            return
        context = ssl.create_default_context(cafile=endpoint.ca or None)
        began = time.perf_counter()
        with context.wrap_socket(plain, server_hostname=url.host):
            tls_ms.append(_ms(began))


def _ms(began_s: float) -> float:
    return 1e3 * (time.perf_counter() - began_s)
