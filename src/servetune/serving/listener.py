"""The port of a server: kept for it until it listens, and known to be its own from then on."""

import contextlib
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from itertools import compress

import psutil

from servetune.loopback import HOST

GREETING_S = 2.0
"""A longer wait than for a greeting within any host that sends one."""

FREED_WITHIN_S = 10.0
"""A longer wait than the kernel takes to close the port of a process that has ended."""


def reserve_port() -> socket.socket:
    """Return a socket that keeps a free port of this host from whoever is given any free port.

    A server may bind the port meanwhile, if it sets SO_REUSEADDR; so may another process that
    asks for this very port, which is why `listens` is asked before a key is sent.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved


def ports_of(pid: int, *but: int) -> list[int]:
    """Return the ports of this host's loopback on which a process or a descendant listens."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        found = {port for each in family for host, port in _listening(each) if host == HOST}
        return sorted(found.difference(but))
    return []


def publishers(ports: Sequence[int]) -> list[int]:
    """Return the ports on which a socket of ZeroMQ listens; those that say nothing cost one wait.

    A server listens on a dozen ports of its own.
    """
    with ThreadPoolExecutor(max(len(ports), 1)) as pool:
        return list(compress(ports, pool.map(_greets, ports)))


def _greets(port: int) -> bool:
    """Tell whether who listens on a port greets first, as ZeroMQ does (RFC 23, ZMTP)."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), GREETING_S) as s:
        greeting = s.recv(10, socket.MSG_WAITALL)
        return greeting[:1] == b"\xff" and greeting[9:] == b"\x7f"
    return False


def is_free(port: int) -> bool:
    """Tell whether a port of this host can be bound."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()
        except OSError:
            return False
        return True


def wait_until_free(port: int) -> None:
    """Wait until a port can be bound again: its process has ended, and it closes in a moment."""
    deadline = time.monotonic() + FREED_WITHIN_S
    while time.monotonic() < deadline and not is_free(port):
        time.sleep(0.05)


def listens(pid: int, port: int) -> bool:
    """Tell whether a process, or one that descends from it, listens on a port of this host.

    Linux gives an address to one listener, or to several of one user that agree to share it.
    """
    family = []
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    return any((HOST, port) in _listening(process) for process in family)


def open_listeners(pid: int) -> list[str]:
    """Return where a process, or one that descends from it, listens beyond this host's loopback."""
    found: set[str] = set()
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error, OSError):
                addresses = (
                    c.laddr
                    for c in each.net_connections("tcp")
                    if c.status == psutil.CONN_LISTEN and not ip_address(c.laddr.ip).is_loopback
                )
                found.update(f"{address.ip} port {address.port}" for address in addresses)
    return sorted(found)


def _listening(process: psutil.Process) -> list[tuple[str, int]]:
    with contextlib.suppress(psutil.Error, OSError):
        connections = process.net_connections("tcp4")
        listening = (c.laddr for c in connections if c.status == psutil.CONN_LISTEN)
        return [(address.ip, address.port) for address in listening]
    return []
