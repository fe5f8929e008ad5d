"""Sessions share the GPUs of a host: each has its own, none waits for ever, whoever is killed."""

import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servetune.sessions import pool
from servetune.sessions.pool import count_held, hold

EIGHT = [f"GPU-{i}" for i in range(8)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of locks of the test's own, and hardly a wait between two looks."""
    monkeypatch.setenv("SERVETUNE_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(pool, "LOOK_EVERY_S", 0.005)
    return tmp_path / "locks"


class Waiting(threading.Thread):
    """A session that takes devices, and keeps them until it is told to end."""

    def __init__(self, count: int, devices: list[str] = EIGHT, **how: object) -> None:
        super().__init__(daemon=True)
        self.taken, self.ends, self.has = threading.Event(), threading.Event(), list[str]()
        self._asked = (devices, count, how)
        self.start()

    def run(self) -> None:
        devices, count, how = self._asked
        with hold(devices, count, **how) as self.has:  # type: ignore[arg-type]
            self.taken.set()
            self.ends.wait()

    def end(self) -> None:
        self.ends.set()
        self.join()


def queue(count: int, folder: Path, devices: list[str] = EIGHT, **how: object) -> Waiting:
    """Start a session, and return once it waits in the queue."""
    before = len(list(folder.glob("ticket-*")))
    waiting = Waiting(count, devices, **how)
    while len(list(folder.glob("ticket-*"))) == before:
        time.sleep(0.001)
    return waiting


def test_sessions_of_one_gpu_do_not_overtake_one_of_four(folder: Path) -> None:
    small = [Waiting(1) for _ in range(8)]
    assert all(each.taken.wait(60) for each in small)
    large = queue(4, folder)
    behind = queue(1, folder)
    for each in small[:3]:
        each.end()
    assert count_held(EIGHT) == 5 and not behind.taken.is_set()
    small[3].end()
    assert large.taken.wait(60)
    assert not behind.taken.is_set()
    for each in small[4:]:
        each.end()
    assert behind.taken.wait(60)
    large.end()
    behind.end()


def test_who_waits_for_other_gpus_is_not_in_the_way(folder: Path) -> None:
    with hold(["GPU-0"], 1):
        waiting = queue(1, folder, ["GPU-0"])
        with hold(["GPU-1"], 1) as has:
            assert has == ["GPU-1"]
    assert waiting.taken.wait(60)
    waiting.end()


def test_a_study_waits_for_its_own_gpu_but_not_for_that_of_another_study(folder: Path) -> None:
    with hold(EIGHT, 1, ["GPU-3"], "mine") as first:
        with hold(EIGHT, 1, ["GPU-3"], "yours") as other:
            assert first == ["GPU-3"] and other == ["GPU-0"]
        second = queue(1, folder, dealt=["GPU-3"], owner="mine")
    assert second.taken.wait(60)
    assert second.has == ["GPU-3"]
    second.end()


class Taker:
    """A process that takes as many devices as it is told, and gives them back when told."""

    def __init__(self) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=take, args=[theirs])
        self.process.start()
        self.asked, self.dies = 0, False
        self.has: list[str] = []

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def take(pipe: Any) -> None:
    while True:
        with hold(EIGHT, pipe.recv()) as has:
            pipe.send(has)
            pipe.recv()
        pipe.send([])


@pytest.fixture
def takers() -> Iterator[list[Taker]]:
    started = [Taker() for _ in range(8)]
    yield started
    for taker in started:
        taker.kill()


def test_no_gpu_is_used_twice_in_random_schedules_with_kills(takers: list[Taker]) -> None:
    """Processes take one to eight GPUs; some are killed as they hold them, some as they wait."""
    # How often the order of events is drawn is for the machine to say, who is killed is not.
    chance, order = random.Random(0), random.Random(1)
    killed = 0
    for _ in range(50):
        for taker in takers:
            taker.asked = chance.choice((1, 1, 2, 4, 8))
            taker.dies = chance.random() < 0.02
            taker.pipe.send(taker.asked)
        waiting = list(takers)
        if chance.random() < 0.16:
            taker = waiting.pop(chance.randrange(len(waiting)))
            taker.kill()
            killed += 1
            takers[takers.index(taker)] = Taker()
        holding: list[Taker] = []
        while waiting or holding:
            ready = [taker for taker in waiting if taker.pipe.poll(0.001)]
            for taker in ready:
                taker.has = taker.pipe.recv()
                waiting.remove(taker)
                holding.append(taker)
            used = [device for taker in holding for device in taker.has]
            assert len(set(used)) == len(used)
            assert all(len(taker.has) == taker.asked for taker in holding)
            if holding and (ready or not waiting or order.random() < 0.5):
                done = holding.pop(order.randrange(len(holding)))
                if done.dies:
                    done.kill()
                    killed += 1
                    takers[takers.index(done)] = Taker()
                else:
                    done.pipe.send(None)
                    assert done.pipe.recv() == []
    assert killed > 10
    assert count_held(EIGHT) == 0


def test_tickets_of_killed_sessions_are_forgotten(folder: Path) -> None:
    folder.mkdir()
    (folder / "ticket-000000007").write_text("\n".join(EIGHT))
    with hold(EIGHT, 8):
        assert not list(folder.glob("ticket-*"))
