"""What a server is asked over HTTP, with the key of its launch once it is known to be its own."""

import contextlib
from typing import Any

import httpx

from servetune.engines.counters import Counters
from servetune.engines.dialect import Dialect
from servetune.loopback import HOST, local_client
from servetune.serving.target import HEALTH_TIMEOUT_S, ServerError

RESET_TIMEOUT_S = 30.0
"""A longer wait than any reset takes of a server that still answers."""


class Asked:
    """A server that listens on a port of this host, under a name and behind a key."""

    dialect: Dialect
    name: str
    api_key: str
    port: int
    _is_known: bool

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://{HOST}:{self.port}"

    def is_healthy(self, timeout_s: float = HEALTH_TIMEOUT_S) -> bool:
        """Tell whether /health answers; it is asked without the key."""
        with contextlib.suppress(httpx.HTTPError), local_client(self.url, {}, timeout_s) as client:
            return client.get(self.dialect.health).is_success
        return False

    def client(self, timeout_s: float) -> httpx.Client:
        """Return an HTTP client with this server's address and key.

        Raises:
            ServerError: it is not known yet that this very server listens there.
        """
        if not self._is_known:
            raise ServerError(f"has no listener of its own on port {self.port} yet")
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return local_client(self.url, headers, timeout_s)

    def get(self, path: str, timeout_s: float = HEALTH_TIMEOUT_S) -> httpx.Response:
        """GET a path with this server's key; raises httpx.HTTPError."""
        with self.client(timeout_s) as client:
            return client.get(path).raise_for_status()

    def scrape(self, client: httpx.Client) -> Counters:
        """Read its metrics by a client; raises httpx.HTTPError."""
        return self.dialect.counters(client)

    def reset_prefix_cache(self, *, has_tiers: bool = False) -> bool:
        """Empty the prefix cache, and its tiers; tells whether the server says that it did."""
        with (
            contextlib.suppress(httpx.HTTPError, ValueError),
            self.client(RESET_TIMEOUT_S) as client,
        ):
            return self.dialect.reset(client, has_tiers)
        return False

    def info(self) -> dict[str, Any]:
        """Return the configuration as the server resolved it; empty where it does not tell."""
        with (
            contextlib.suppress(httpx.HTTPError, ValueError),
            self.client(HEALTH_TIMEOUT_S) as client,
        ):
            return self.dialect.info(client)
        return {}

    def _keeps_out_strangers(self) -> bool:
        """Tell whether it asks for a key; it is known to be its own from then on.

        Raises:
            ServerError: it does not.
        """
        with contextlib.suppress(httpx.HTTPError), local_client(self.url, {}, 2.0) as client:
            if (status := client.get("/v1/models").status_code) != 401:
                raise ServerError(
                    f"answers {status} to a request without its key: {self.dialect.unlocked}"
                )
            self._is_known = True
        return self._is_known

    def _names_itself(self) -> bool:
        try:
            served = [model["id"] for model in self.get("/v1/models").json()["data"]]
        except (httpx.HTTPError, ValueError, KeyError):
            return False
        if self.name not in served:
            raise ServerError(
                f"port {self.port} answers for {', '.join(served)} and not for this session:"
                " another server has it"
            )
        return True
