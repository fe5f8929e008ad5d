"""A server's port is kept for it, and a key goes to nobody else who listens there."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from threading import Thread

from servetune.loopback import HOST
from servetune.serving.listener import is_free, listens, publishers, reserve_port

ZMTP = b"\xff" + bytes(8) + b"\x7f"

LISTEN = """
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_reserved_port_is_given_to_no_other_and_is_free_for_its_server() -> None:
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        others = [reserve_port() for _ in range(200)]
        assert port not in {other.getsockname()[1] for other in others}
        for other in others:
            other.close()
        assert is_free(port)


def test_a_listener_is_known_by_the_processes_that_descend_from_a_launch() -> None:
    reserved = reserve_port()
    port = reserved.getsockname()[1]
    assert not listens(os.getpid(), port)
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "listening\n"
        assert listens(os.getpid(), port) and listens(child.pid, port)
        assert not listens(child.pid, port + 1)
        assert not is_free(port)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
            assert not listens(stranger.pid, port)
    reserved.close()
    assert is_free(port)
    assert not listens(child.pid, port)


def test_a_connection_to_a_port_is_no_listener() -> None:
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(listener.getsockname())
        assert not listens(os.getpid(), client.getsockname()[1])


def test_who_publishes_is_found_among_ports_that_say_nothing_all_asked_at_once() -> None:
    with ExitStack() as open_:
        listeners = [open_.enter_context(socket.create_server((HOST, 0))) for _ in range(4)]
        ports = [listener.getsockname()[1] for listener in listeners]

        def greet_last() -> None:
            # None is let go before all are asked: one after another they would never be.
            asked = [open_.enter_context(listener.accept()[0]) for listener in listeners]
            for each, says in zip(asked, (b"HTTP/1.1 4", b"no", ZMTP, b""), strict=True):
                each.sendall(says)
                each.shutdown(socket.SHUT_WR)

        Thread(target=greet_last, daemon=True).start()
        assert publishers(ports) == [ports[2]]
