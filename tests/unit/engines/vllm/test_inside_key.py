"""The middleware that stands before a server: who gets through, and who does not."""

import asyncio
from typing import Any

import pytest

from servetune.engines.vllm.inside_key import KEY_VARIABLE, RequireKey

KEY = (b"authorization", b"Bearer open-sesame")
FOREIGN = (b"origin", b"https://page.example")
OWN = (b"origin", b"http://127.0.0.1:8000")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "open-sesame")


def ask(path: str, *headers: tuple[bytes, bytes], **scope: Any) -> Any:
    """Return "passed", or the first message with which the request was refused."""
    sent: list[Any] = []

    async def app(*_: Any) -> None:
        sent.append("passed")

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("what is refused is not read")

    asked: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": headers}
    asyncio.run(RequireKey(app)({**asked, "server": ("127.0.0.1", 8000), **scope}, receive, send))
    return sent[0]


def status(*words: Any, **scope: Any) -> Any:
    answer = ask(*words, **scope)
    return answer if answer == "passed" else answer["status"]


PATHS = ("/v1/models", "/metrics", "/pause", "/collective_rpc", "/health/", "//health", "/healthz")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "DELETE"])
def test_every_path_but_health_asks_for_the_key(path: str, method: str) -> None:
    assert status(path, method=method) == 401
    assert status(path, (b"authorization", b"Bearer open-sesam"), method=method) == 401
    assert status(path, (b"authorization", b"open-sesame"), method=method) == 401
    assert status(path, (b"authorization", b"Bearer \xff"), method=method) == 401
    assert status(path, KEY, method=method) == "passed"


def test_health_is_open_but_to_a_page_of_another_origin() -> None:
    assert status("/health") == "passed"
    assert status("/health", FOREIGN) == 403


def test_a_page_of_another_origin_is_refused_even_with_the_key() -> None:
    for origin in (FOREIGN, (b"Origin", b"null"), (b"origin", b"http://127.0.0.1:8001")):
        assert status("/v1/models", KEY, origin) == 403
    assert status("/v1/models", KEY, OWN) == "passed"


def test_a_websocket_asks_for_the_key_too() -> None:
    socket: dict[str, Any] = {"type": "websocket", "method": None}
    assert ask("/v1/realtime", **socket) == {"type": "websocket.close", "code": 1008}
    assert ask("/health", **socket) == {"type": "websocket.close", "code": 1008}
    answering = socket | {"extensions": {"websocket.http.response": {}}}
    assert ask("/v1/realtime", **answering)["type"] == "websocket.http.response.start"
    assert status("/v1/realtime", **answering) == 401
    assert status("/v1/realtime", KEY, FOREIGN, **answering) == 403
    assert status("/v1/realtime", KEY, **socket) == "passed"


def test_the_start_and_the_end_of_a_server_pass() -> None:
    assert status("", type="lifespan") == "passed"


def test_a_launch_without_a_key_serves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(KeyError):
        ask("/health")
