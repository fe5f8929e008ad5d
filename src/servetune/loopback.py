"""HTTP to servers on this host: through no proxy, and without the certificates that HTTPS reads."""

import ssl
from collections.abc import Mapping

import httpx

HOST = "127.0.0.1"

# It trusts nobody, and nobody is asked. Reading a host's certificates takes each client 30 ms of
# the processors that a server is measured on.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


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
