"""Start the stand-in engine's server and talk to it."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from servetune.engines.source import environment_with_source
from servetune.engines.vllm.inside_key import KEY_VARIABLE, RequireKey

PYTHON = Path(__file__).with_name("python")
KEY = "open-sesame"
PROMPT = " ".join(f"word{i}" for i in range(100))
PATIENCE_S = 600.0
"""For what takes a moment, also on a machine that has much else to do."""


@dataclass
class Server:
    process: subprocess.Popen[str]
    log: Path
    http: httpx.Client

    def complete(self, path: str = "/v1/completions", **body: Any) -> httpx.Response:
        defaults = {"model": "it", "prompt": PROMPT, "max_tokens": 8, "ignore_eos": True}
        return self.http.post(path, json=defaults | body)

    def stream(self, **body: Any) -> list[dict[str, Any]]:
        answer = self.complete(stream=True, stream_options={"include_usage": True}, **body)
        data = re.findall(r"^data: (.+)$", answer.text, re.MULTILINE)
        assert data.pop() == "[DONE]"
        return [json.loads(chunk) for chunk in data]

    def counter(self, name: str, **labels: str) -> float:
        for family in text_string_to_metric_families(self.http.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        raise AssertionError(f"no {name} with {labels}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def write_model(folder: Path) -> Path:
    """Write as much of a model as the stand-in reads."""
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    return folder


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer that counts as the stand-in does: a word, a sign or a space."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    pieces = Regex(r" ?\w+| ?[^\w\s]+|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pieces, behavior="isolated")
    tokenizer.save(str(folder / "tokenizer.json"))


def launch(model: Path, port: int, log: Path, arguments: tuple[str, ...]) -> subprocess.Popen[str]:
    serve = ("-m", "vllm.entrypoints.cli.main", "serve", str(model))
    where = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "it")
    door = ("--middleware", f"{RequireKey.__module__}.{RequireKey.__qualname__}")
    return subprocess.Popen(
        [PYTHON, *serve, *where, *door, *arguments],
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
        env={**environment_with_source(), KEY_VARIABLE: KEY, "VLLM_SERVER_DEV_MODE": "1"},
        start_new_session=True,
        text=True,
    )


@contextmanager
def serving(
    model: Path, tmp_path: Path, *arguments: str, port: int | None = None
) -> Iterator[Server]:
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    log = tmp_path / f"{port}.log"
    process = launch(model, port, log, arguments)
    client = httpx.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=PATIENCE_S,
        trust_env=False,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not is_healthy(client):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield Server(process, log, client)
    finally:
        client.close()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def is_healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False
