"""What the load client and others use of the processors is seen from outside of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servetune.telemetry import processors
from servetune.telemetry.processors import Usage, UsageWatch

SPIN = "while True: pass"
SLEEP = "import time; time.sleep(60)"
# As a client that reads a token every few milliseconds.
SIP = "import time\nwhile True: time.sleep(0.003)"
SPIN_A_SECOND = "import time\nwhile time.process_time() < 1.0: pass"

WATCHED_S = 2.0

Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code as a child, on one core if `core` is given; returns its pid."""
    children: list[subprocess.Popen[bytes]] = []

    def start_child(code: str, core: int | None = None) -> int:
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        children.append(child)
        if core is not None:
            os.sched_setaffinity(child.pid, {core})
        return child.pid

    yield start_child
    for child in children:
        # The whole group: a child may have children.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def watch(client: int | None, session: int | None = None, seconds: float = WATCHED_S) -> Usage:
    watcher = UsageWatch(client, session)
    watcher.start()
    time.sleep(seconds)
    return watcher.stop()


def ratio(value: float | None) -> float:
    assert value is not None
    return value


def child_that(first: str, then: str) -> str:
    """Code that runs `first` in a child of its own, waits for its end, and goes on."""
    return f"import subprocess, sys; subprocess.run([sys.executable, '-c', {first!r}])\n{then}"


def test_a_busy_client_is_seen(start: Start) -> None:
    seen = watch(start(SPIN, core=min(os.sched_getaffinity(0))))
    # Others may hold the core for a part of the time.
    assert ratio(seen.client_cpu_ratio) + (seen.client_wait_ratio or 0.5) > 0.7
    assert 0.2 < ratio(seen.client_cpu_ratio) < 1.2


def test_a_client_that_sleeps_is_not_busy(start: Start) -> None:
    pid = start(SLEEP)
    time.sleep(0.5)
    seen = watch(pid)
    assert ratio(seen.client_cpu_ratio) < 0.2
    assert seen.client_memory_bytes is not None
    assert 2**20 < seen.client_memory_bytes < 2**30


def test_the_busiest_process_of_the_client_counts(start: Start) -> None:
    seen = watch(start(child_that(SPIN, SLEEP)))
    assert ratio(seen.client_cpu_ratio) > 0.2


def test_a_client_process_that_ended_is_counted(start: Start) -> None:
    seen = watch(start(child_that(SPIN_A_SECOND, SLEEP)), seconds=5.0)
    # Its last half second may be missing.
    assert ratio(seen.client_cpu_ratio) > 0.05


def test_a_client_that_is_gone_is_not_known() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    seen = watch(child.pid, seconds=0.2)
    assert seen.client_cpu_ratio is None
    assert seen.client_wait_ratio is None
    assert seen.client_memory_bytes is None


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell how long one waits"
)
def test_a_client_that_shares_its_core_waits(start: Start) -> None:
    core = min(os.sched_getaffinity(0))
    alone = watch(start(SIP))
    for _ in range(2):
        start(SPIN, core)
    sharing = watch(start(SPIN, core))
    assert ratio(sharing.client_wait_ratio) > 0.2
    assert ratio(alone.client_wait_ratio) < ratio(sharing.client_wait_ratio) / 2


def test_without_schedstat_the_wait_is_not_known(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "_read_wait_s", lambda pid: None)
    seen = watch(start(SLEEP), seconds=0.2)
    assert seen.client_wait_ratio is None
    assert seen.client_cpu_ratio is not None


def watch_from_both_sides(inside: int, outside: int, seconds: float) -> tuple[float, float]:
    """Watch as a session that all is part of, and as one of which only `outside` is."""
    with_it, without_it = UsageWatch(inside), UsageWatch(None, outside)
    with_it.start()
    without_it.start()
    time.sleep(seconds)
    seen, seen_outside = with_it.stop(), without_it.stop()
    return ratio(seen.other_cpu_ratio), ratio(seen_outside.other_cpu_ratio)


def test_a_busy_process_is_other_only_to_a_session_that_it_is_no_part_of(start: Start) -> None:
    busy, session = start(SPIN), start(SLEEP)
    own, other = watch_from_both_sides(busy, session, WATCHED_S)
    # Whatever else runs on this machine is in both.
    assert other - own > 0.2 / (os.cpu_count() or 1)


def test_an_own_process_that_ended_is_not_taken_for_another(start: Start) -> None:
    session = start(SLEEP)
    short_lived = start(child_that(SPIN_A_SECOND, SLEEP))
    own, other = watch_from_both_sides(short_lived, session, 5.0)
    assert other - own > 0.3 / 5.0 / (os.cpu_count() or 1)


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
    monkeypatch.setattr(processors, "_PROC", tmp_path)
    assert watch(os.getpid(), seconds=0.2) == Usage()


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
    monkeypatch.setattr(processors, "_PROC", tmp_path / "missing")
    assert watch(os.getpid(), seconds=0.2) == Usage()


class Machine:
    """A /proc of our own, in which processes use, end and are inherited as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(
        self, pid: int, parent: int, cpu_s: float, children_s: float = 0.0, started: int = 1
    ) -> None:
        fields = ["0"] * 50
        fields[0:2] = ["S", str(parent)]
        fields[11], fields[13] = (str(round(100 * s)) for s in (cpu_s, children_s))
        fields[19], fields[21] = str(started), "256"
        (self.folder / str(pid)).mkdir(exist_ok=True)
        (self.folder / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}")

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
    monkeypatch.setattr(processors, "_PROC", tmp_path)
    monkeypatch.setattr(processors, "_TICKS_PER_S", 100)
    monkeypatch.setattr(processors, "SAMPLE_EVERY_S", 3600.0)
    made = Machine(tmp_path)
    made.total(100, 100)
    made.process(1, 0, 50)
    made.process(10, 1, 3)
    made.process(20, 10, 2, children_s=7)
    return made


def watch_change(monkeypatch: pytest.MonkeyPatch, change: Callable[[UsageWatch], None]) -> Usage:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watcher = UsageWatch(20, 10)
    watcher.start()
    change(watcher)
    clock[0] += 10.0
    return watcher.stop()


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
