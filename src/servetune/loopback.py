"""HTTP to servers on this host: through no proxy, and without the certificates that HTTPS reads."""

import socket
import ssl
from collections.abc import Mapping

import httpx

from servetune.errors import UserError

HOST = "127.0.0.1"

_REACHED_WITHIN_S = 10.0
"""A longer wait than a connection within any host that answers, however busy it is."""

# It trusts nobody, and nobody is asked. Reading a host's certificates takes each client 30 ms of
# the processors that a server is measured on.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def check_loopback() -> None:
    """Check that a program of this host reaches another one here, as servers have to be reached.

    Raises:
        UserError: it does not, as in a container that was given no network at all.
    """
    try:
        with socket.socket() as server, socket.socket() as client:
            server.bind((HOST, 0))
            server.listen()
            client.settimeout(_REACHED_WITHIN_S)
            client.connect(server.getsockname())
    except OSError as error:
        raise UserError(
            f"{HOST}: this host does not reach itself there ({error.strerror or error}), so no"
            " server could be measured; turn the loopback interface on: ip link set lo up"
        ) from None


def local_client(
    base_url: str = "", headers: Mapping[str, str] | None = None, timeout_s: float = 5.0
) -> httpx.Client:
    """Return an HTTP client for a server on this host, whatever proxy the environment names."""
    return httpx.Client(
        base_url=base_url,
        headers=headers,
        timeout=timeout_s,
        trust_env=False,
        verify=_NO_CERTIFICATES,
    )


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep a process's requests to this host from its proxy."""
    excepted = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [host.strip() for host in excepted.split(",") if host.strip()]
    if "*" not in hosts and HOST not in hosts:
        hosts.append(HOST)
    # Programs read either name, and some the first that they find.
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(hosts))
