"""A server's port is kept for it, and a key goes to nobody else who listens there."""

import os
import socket
import subprocess
import sys

from servetune.serving.listener import is_free, listens, reserve_port

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
