"""A gateway by its command: whatever program a study names stands before the replicas.

It is told its port and the replicas' addresses in the words and variables that the study declares.
The key of the launch is among its variables where the study says so, and never in its words.
"""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from servetune.engines.source import environment_with_source
from servetune.loopback import HOST, local_client
from servetune.serving.gateway import ASK_TIMEOUT_S, GatewayProcess, Start
from servetune.serving.listener import listens, open_listeners
from servetune.serving.target import ServerError
from servetune.study.gateways import filled
from servetune.study.secrets import redacted

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(eq=False)
class CommandGateway(GatewayProcess):
    """A gateway by its command.

    `bin` has its program, if not the host's PATH. `ready` and `metrics` are paths;
    `names_replicas` says that the first lists those that it has registered. `own_port` is one
    that it cannot change.
    """

    words: list[str]
    settings: Mapping[str, str]
    bin: str | None
    ready: str
    names_replicas: bool = False
    metrics: str | None = None
    own_port: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.own_port is not None:
            self.port = self.own_port
        self._start: Start | None = None

    def _words_of(self, start: Start) -> list[str]:
        self._start = start
        values = self._values(start)
        words: list[str] = []
        for word in self.words:
            words += start.workers if word == "{workers}" else [filled(word, values)]
        return words

    def _environment_of(self, start: Start) -> dict[str, str]:
        values = {**self._values(start), "key": start.api_key}
        environment = environment_with_source()
        if self.bin:
            environment["PATH"] = f"{self.bin}:{environment.get('PATH', '')}"
        return {**environment, **{name: filled(v, values) for name, v in self.settings.items()}}

    def _values(self, start: Start) -> dict[str, str]:
        return {
            "port": str(self.port),
            "metrics_port": str(self._metrics_port),
            "worker": start.workers[0],
            "workers": ",".join(start.workers),
            "model": start.model,
        }

    def _registered(self) -> list[str]:
        self._check_open()
        page = self._ask(self.port, self.ready)
        return [each for each in self._workers if not self.names_replicas or each in page]

    def _check_ports(self) -> None:
        assert self._process is not None
        if not listens(self._process.pid, self.port):
            raise ServerError(
                f"answers on port {self.port}, but not by this command: another process has it"
            )
        self._check_open()

    def _check_open(self) -> None:
        """Check that all its ports are the host's own; raises ServerError."""
        if self._process and (opened := open_listeners(self._process.pid)):
            raise ServerError(
                f"listens on {', '.join(opened)}, where others than this host reach it; have its"
                f" command listen on {HOST}"
            )

    def is_healthy(self) -> bool:
        """Tell whether its page of readiness answers."""
        with contextlib.suppress(httpx.HTTPError):
            self._ask(self.port, self.ready)
            return True
        return False

    def counted(self) -> dict[str, float]:
        """Return what its page of metrics tells; empty where it has none or does not answer."""
        if self.metrics is None:
            return {}
        is_apart = any("{metrics_port}" in text for text in (*self.words, *self.settings.values()))
        with contextlib.suppress(httpx.HTTPError, ValueError):
            return read_page(
                self._ask(self._metrics_port if is_apart else self.port, self.metrics),
                self._workers,
            )
        return {}

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of its output, without the key of the launch."""
        secrets = [self._start.api_key] if self._start and self._start.api_key else []
        return [str(redacted(line, secrets)) for line in super().log_tail(lines)]

    def _ask(self, port: int, path: str) -> str:
        key = self._start.api_key if self._start else ""
        headers = {"Authorization": f"Bearer {key}"} if self._owns(port) else {}
        with local_client(f"http://{HOST}:{port}", headers, ASK_TIMEOUT_S) as client:
            return client.get(path).raise_for_status().text

    def _owns(self, port: int) -> bool:
        """Tell whether this very process listens on a port: others are not told the key."""
        return self._process is not None and listens(self._process.pid, port)


def read_page(page: str, workers: list[str]) -> dict[str, float]:
    """Read a Prometheus page: values by name and labels, a replica's number for its address.

    Buckets of histograms are left out; raises ValueError.
    """
    numbers = {url: str(number) for number, url in enumerate(workers, 1)}
    values: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(page):
        if name.endswith(("_bucket", "_created")):
            continue
        told: list[tuple[str, Any]] = [
            (key, numbers.get(text, text)) for key, text in _LABEL.findall(labels)
        ]
        shown = ",".join(f"{key}={text}" for key, text in sorted(told))
        values[f"{name}{{{shown}}}" if shown else name] = float(value)
    return values
