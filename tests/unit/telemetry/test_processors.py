"""What the load client and others use of the processors is seen from outside of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from servetune.records.measurements import Card
from servetune.records.validity import check_measurement
from servetune.study.validity import Limits
from servetune.telemetry import proc, processors
from servetune.telemetry.processors import UsageWatch
from tests.unit.records.test_validity import metrics

SPIN = "while True: pass"
SLEEP = "import time; time.sleep(600)"

ENOUGH_S = 0.5
"""Of CPU time, which a child gets at some time on however busy a machine."""

Start = Callable[..., psutil.Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code as a child, on one core if `core` is given."""
    children: list[subprocess.Popen[bytes]] = []

    def start_child(code: str, core: int | None = None) -> psutil.Process:
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        children.append(child)
        if core is not None:
            os.sched_setaffinity(child.pid, {core})
        return psutil.Process(child.pid)

    yield start_child
    for child in children:
        # The whole group: a child may have children.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def cpu_s(process: psutil.Process) -> float:
    """The CPU time of a process, and of its children that it waited for."""
    return sum(process.cpu_times()[:4])


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.02)


class Watched:
    """What a watch saw, and the least and the most that a process used of its core meanwhile.

    Other work may stop this process at any time, so the times are taken both before and after the
    watch begins, and both before and after it ends.
    """

    def __init__(
        self,
        watcher: UsageWatch,
        process: psutil.Process,
        ends: Callable[[float], bool] = lambda used_s: used_s >= ENOUGH_S,
    ) -> None:
        outer, outer_s = cpu_s(process), time.monotonic()
        watcher.start()
        inner, inner_s = cpu_s(process), time.monotonic()
        until(lambda: ends(cpu_s(process) - inner))
        least_s, shortest_s = cpu_s(process) - inner, time.monotonic() - inner_s
        self.usage = watcher.stop()
        self.wall_s = time.monotonic() - outer_s
        self.cpu_s = cpu_s(process) - outer
        self.least, self.most = least_s / self.wall_s, self.cpu_s / shortest_s


def ratio(value: float | None) -> float:
    assert value is not None
    return value


def child_that(first: str, then: str) -> str:
    """Code that runs `first` in a child of its own, waits for its end, and goes on."""
    return f"import subprocess, sys; subprocess.run([sys.executable, '-c', {first!r}])\n{then}"


def test_a_busy_client_is_seen(start: Start) -> None:
    client = start(SPIN)
    seen = Watched(UsageWatch(client.pid), client)
    assert seen.least <= ratio(seen.usage.client_cpu_ratio) <= seen.most


def test_a_client_that_sleeps_is_not_busy(start: Start) -> None:
    client, clock = start(SLEEP), start(SPIN)
    began_s = cpu_s(clock)
    seen = Watched(UsageWatch(client.pid), client, lambda _: cpu_s(clock) - began_s >= ENOUGH_S)
    assert seen.least <= ratio(seen.usage.client_cpu_ratio) <= seen.most
    assert seen.usage.client_memory_bytes is not None
    assert 2**20 < seen.usage.client_memory_bytes < 2**30


def test_the_busiest_process_of_the_client_counts(start: Start) -> None:
    client = start(child_that(SPIN, SLEEP))
    until(lambda: len(client.children()) == 1)
    (busiest,) = client.children()
    seen = Watched(UsageWatch(client.pid), busiest)
    assert seen.least <= ratio(seen.usage.client_cpu_ratio) <= seen.most


def test_a_client_that_is_gone_is_not_known() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    watcher = UsageWatch(child.pid)
    watcher.start()
    seen = watcher.stop()
    assert seen.client_cpu_ratio is None
    assert seen.client_wait_ratio is None
    assert seen.client_memory_bytes is None


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell how long one waits"
)
def test_a_client_that_shares_its_core_waits(start: Start) -> None:
    core = min(os.sched_getaffinity(0))
    client, *_ = (start(SPIN, core) for _ in range(3))
    seen = Watched(UsageWatch(client.pid), client)
    # Whatever it did not get of its core went to others.
    waited_s = ratio(seen.usage.client_wait_ratio) * seen.wall_s
    assert waited_s + seen.cpu_s == pytest.approx(seen.wall_s, rel=0.3)
    assert waited_s > 0.3 * seen.wall_s


def test_without_schedstat_the_wait_is_not_known(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "read_wait_s", lambda pid: None)
    client = start(SPIN)
    seen = Watched(UsageWatch(client.pid), client).usage
    assert seen.client_wait_ratio is None
    assert seen.client_cpu_ratio is not None


def other_s(
    session: psutil.Process,
    owner: psutil.Process,
    busy: psutil.Process,
    end: Callable[[], None] = lambda: None,
) -> float:
    """CPU time that is other to a session, beyond what is so to `owner`, whose `busy` is.

    The watch of the session lasts longer at both ends, so it is at least what `busy` used.
    """
    without_it, with_it = UsageWatch(None, session.pid), UsageWatch(None, owner.pid)
    without_it.start()
    with_it.start()
    before_s = cpu_s(busy)
    until(lambda: cpu_s(busy) - before_s >= ENOUGH_S)
    end()
    with_it.stop()
    without_it.stop()
    own, other = (each.so_far()["other_cpu_s"] for each in (with_it, without_it))
    # What the session used to start is not other to it.
    return other - own + cpu_s(session)


def test_a_busy_process_is_other_only_to_a_session_that_it_is_no_part_of(start: Start) -> None:
    session, busy = start(SLEEP), start(SPIN)
    assert other_s(session, busy, busy) > 0.9 * ENOUGH_S


def test_an_own_process_that_ended_is_not_taken_for_another(start: Start) -> None:
    session, client = start(SLEEP), start(child_that(SPIN, SLEEP))
    until(lambda: len(client.children()) == 1)
    (child,) = client.children()

    def end() -> None:
        child.kill()
        until(lambda: not client.children())

    assert other_s(session, client, child, end) > 0.9 * ENOUGH_S


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense\n",
        "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n",
        "cpu  5 5 5 5 5 5 5 5 0 0\ncpu0 5 5 5 5 5 5 5 5 0 0\n",
    ],
)
def test_a_machine_that_does_not_tell_its_use_has_no_known_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    (tmp_path / "stat").write_text(content)
    monkeypatch.setattr(proc, "_PROC", tmp_path)
    watcher = UsageWatch(os.getpid())
    watcher.start()
    assert watcher.stop() == Card()


def test_only_cores_that_the_session_may_run_on_count(
    machine: "Machine", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1})
    machine.cores((100, 100), (50, 150))

    def change(_: UsageWatch) -> None:
        # The neighbour of the other core is busy all the time, that of ours for four seconds.
        machine.cores((110, 100), (54, 156))

    assert watch_change(monkeypatch, change).other_cpu_ratio == pytest.approx(0.4)


def test_without_proc_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "_PROC", tmp_path / "missing")
    watcher = UsageWatch(os.getpid())
    watcher.start()
    assert watcher.stop() == Card()


class Machine:
    """A /proc of our own, in which processes use, end and are inherited as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(
        self,
        pid: int,
        parent: int,
        cpu_s: float,
        children_s: float = 0.0,
        started: int = 1,
        name: str = "a) b",
    ) -> None:
        fields = ["0"] * 50
        fields[0:2] = ["S", str(parent)]
        fields[11], fields[13] = (str(round(100 * s)) for s in (cpu_s, children_s))
        fields[19], fields[21] = str(started), "256"
        (self.folder / str(pid)).mkdir(exist_ok=True)
        (self.folder / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")

    def end(self, pid: int) -> None:
        (self.folder / str(pid) / "stat").unlink()
        (self.folder / str(pid)).rmdir()

    def total(self, busy_s: float, idle_s: float) -> None:
        (self.folder / "stat").write_text(
            f"cpu  {busy_s * 100:.0f} 0 0 {idle_s * 100:.0f} 0 0 0 0 0 0\n"
            "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 0\n"
        )

    def cores(self, *times: tuple[float, float]) -> None:
        """Busy and idle seconds of each core."""
        lines = [
            f"cpu{i} {100 * b:.0f} 0 0 {100 * r:.0f} 0 0 0 0 0 0" for i, (b, r) in enumerate(times)
        ]
        busy, idle = (sum(column) for column in zip(*times, strict=True))
        (self.folder / "stat").write_text(
            "\n".join(
                [f"cpu  {100 * busy:.0f} 0 0 {100 * idle:.0f} 0 0 0 0 0 0", *lines, "intr 0\n"]
            )
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two cores and a clock that `watch_change` moves on by ten seconds."""
    monkeypatch.setattr(proc, "_PROC", tmp_path)
    monkeypatch.setattr(proc, "_TICKS_PER_S", 100)
    monkeypatch.setattr(processors, "SAMPLE_EVERY_S", 3600.0)
    made = Machine(tmp_path)
    made.total(100, 100)
    made.process(1, 0, 50)
    made.process(10, 1, 3)
    made.process(20, 10, 2, children_s=7)
    return made


def watch_neighbour(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, used_s: Callable[[float], float]
) -> tuple[Card, list[float]]:
    """Watch a load of 30 s, in which the session uses one of the two cores all the time.

    `used_s` tells the CPU time of a neighbour by the time since the start. Returns the card, and
    what `other_cpu_s` was in each sample.
    """
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watcher = UsageWatch(None, 10)
    watcher.start()
    others_s = []
    for sample in range(1, 61):
        passed_s = 0.5 * sample
        clock[0] = 1000.0 + passed_s
        busy_s = passed_s + used_s(passed_s)
        machine.total(100 + busy_s, 100 + 2 * passed_s - busy_s)
        machine.process(20, 10, 2 + passed_s, children_s=7)
        watcher._sample()
        others_s.append(watcher.so_far()["other_cpu_s"])
    return watcher.stop(), others_s


def between(began_s: float, ended_s: float) -> Callable[[float], float]:
    """CPU time of one core from `began_s` to `ended_s`."""
    return lambda passed_s: min(max(0.0, passed_s - began_s), ended_s - began_s)


def test_a_neighbour_in_the_middle_third_of_a_load_is_seen(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, others_s = watch_neighbour(machine, monkeypatch, between(10, 20))
    assert card.other_cpu_ratio == pytest.approx(10 / 60)
    assert card.other_cpu_p95_ratio == pytest.approx(0.5)
    assert others_s[19] == pytest.approx(0)
    assert others_s[-1] == pytest.approx(10)
    assert check_measurement(metrics(), card, Limits())[1] == "other-processes"


@pytest.mark.parametrize("began_s", [0, 0.2, 14.9, 29])
def test_a_second_of_one_core_is_no_neighbour(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, began_s: float
) -> None:
    card, _ = watch_neighbour(machine, monkeypatch, between(began_s, began_s + 1))
    assert ratio(card.other_cpu_p95_ratio) <= 1 / 6
    assert check_measurement(metrics(), card, Limits())[0] == "ok"


def test_a_load_shorter_than_a_window_is_judged_by_its_mean(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "WINDOW_S", 40.0)
    card, _ = watch_neighbour(machine, monkeypatch, between(10, 20))
    assert card.other_cpu_p95_ratio == card.other_cpu_ratio == pytest.approx(10 / 60)


def watch_change(monkeypatch: pytest.MonkeyPatch, change: Callable[[UsageWatch], None]) -> Card:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watcher = UsageWatch(20, 10)
    watcher.start()
    change(watcher)
    clock[0] += 10.0
    return watcher.stop()


def test_the_front_end_is_the_busiest_process_of_the_server_outside_the_engine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {30: (10, "vllm"), 31: (30, "VLLM::APIServer"), 32: (30, "VLLM::EngineCor")}
    server[33] = 32, "VLLM::Worker_TP"

    def use(used_s: dict[int, float]) -> None:
        for pid, (parent, name) in server.items():
            machine.process(pid, parent, used_s[pid], name=name)

    use(dict.fromkeys(server, 5.0))
    later = {30: 6.0, 31: 14.0, 32: 15.0, 33: 15.0}
    seen = watch_change(monkeypatch, lambda watcher: use(later))
    assert seen.front_end_cpu_ratio == pytest.approx(0.9)


def test_own_use_is_taken_off_the_machines(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_: UsageWatch) -> None:
        machine.total(110, 110)
        machine.process(1, 0, 55)
        machine.process(20, 10, 7, children_s=7)

    seen = watch_change(monkeypatch, change)
    assert seen.other_cpu_ratio == pytest.approx(0.25)
    assert seen.client_cpu_ratio == pytest.approx(0.5)
    assert seen.client_memory_bytes == 256 * os.sysconf("SC_PAGE_SIZE")


def test_a_child_that_came_and_went_between_samples_is_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_: UsageWatch) -> None:
        machine.total(110, 110)
        machine.process(20, 10, 2, children_s=17)

    assert watch_change(monkeypatch, change).other_cpu_ratio == pytest.approx(0.0)


def test_a_child_that_was_seen_and_waited_for_is_own_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(watcher: UsageWatch) -> None:
        machine.process(30, 20, 4)
        watcher._sample()
        machine.end(30)
        machine.process(20, 10, 2, children_s=7 + 5)
        machine.total(110, 110)

    seen = watch_change(monkeypatch, change)
    assert seen.other_cpu_ratio == pytest.approx(0.25)
    assert seen.client_cpu_ratio == pytest.approx(0.4)


def test_an_orphan_stays_own_after_its_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(watcher: UsageWatch) -> None:
        machine.process(30, 20, 4)
        watcher._sample()
        machine.process(30, 1, 5)
        watcher._sample()
        machine.end(30)
        machine.total(110, 110)

    assert watch_change(monkeypatch, change).other_cpu_ratio == pytest.approx(0.25)


def test_a_pid_that_comes_again_is_another_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(watcher: UsageWatch) -> None:
        machine.process(30, 20, 1)
        watcher._sample()
        machine.process(30, 1, 90, started=2)
        machine.process(20, 10, 2, children_s=7 + 1)
        machine.total(110, 110)

    seen = watch_change(monkeypatch, change)
    assert seen.other_cpu_ratio == pytest.approx(0.45)
    assert seen.client_cpu_ratio == pytest.approx(0.1)


def test_more_own_use_than_the_machine_tells_is_no_negative_use(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_: UsageWatch) -> None:
        machine.total(105, 115)
        machine.process(20, 10, 9, children_s=7)

    assert watch_change(monkeypatch, change).other_cpu_ratio == 0.0
