"""A replica that is killed in mid-load: when, what it takes along, and when it is noticed."""

from typing import Any, cast

import pandas as pd
import pytest

from servetune.load.generator import CUT, NOT_SENT
from servetune.records.loads import Load
from servetune.records.validity import limits_of
from servetune.serving.fleet import Fleet
from servetune.sessions import death
from servetune.sessions.death import Killing
from servetune.study.validity import Limits
from servetune.study.workloads import Kill, LoadPoint


class Killed:
    """A fleet that only notes who is killed; its gateway notices at the third look."""

    def __init__(self) -> None:
        self.killed: list[int] = []
        self.looks = 0

    def kill(self, replica: int) -> int:
        self.killed.append(replica)
        return 4

    def has_noticed(self, replica: int) -> bool:
        self.looks += 1
        return self.looks >= 3


def killing(fleet: Killed) -> Killing:
    return Killing(cast(Fleet, fleet), Kill(replica=2, after_requests=10))


def requests(*errors: str | None) -> pd.DataFrame:
    return pd.DataFrame({"error": errors, "start_s": range(len(errors))})


def test_a_replica_is_killed_once_when_so_many_requests_are_answered() -> None:
    fleet = Killed()
    of = killing(fleet)
    for finished in (0, 9, 10, 11, 12):
        of(finished)
    assert fleet.killed == [2] and of.in_flight == 4
    assert of.noticed_at_s is None


def test_what_was_lost_and_when_it_was_noticed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Killed()
    of = killing(fleet)
    monkeypatch.setattr(death, "LOOK_EVERY_S", 0)
    of(10)
    of.wait_until_noticed()
    assert of.killed_at_s is not None
    found = of.death(requests(None, "reset", None, "reset", NOT_SENT, CUT), of.killed_at_s - 2)
    assert found is not None
    assert (found.replica, found.lost, found.not_sent, found.in_flight) == (2, 2, 1, 4)
    assert found.at_s == pytest.approx(2) and found.last_lost_s == pytest.approx(1)
    assert found.noticed_s is not None and found.noticed_s >= 0


def test_a_load_that_ended_before_killed_nobody() -> None:
    of = killing(Killed())
    of(3)
    of.wait_until_noticed()
    assert of.death(requests(None), 0.0) is None


def test_requests_that_a_death_takes_make_no_measurement_invalid() -> None:
    of_load: dict[str, Any] = {
        **{"dataset": "d-0123456789ab", "endpoint": "chat", "seed": 0},
        **{"concurrency": 8, "requests": 16},
    }
    kill = {"replica": 1, "after_requests": 4}
    limits = limits_of(Limits(), None, Load(**of_load, kill=kill))
    assert limits.failed_ratio is None and limits.counter_error_ratio is None
    assert limits.other_cpu_ratio == Limits().other_cpu_ratio
    assert limits_of(Limits(), None, Load(**of_load)) == Limits()


def test_a_load_that_kills_has_a_name_of_its_own() -> None:
    point = LoadPoint(concurrency=8, requests=16, kill=Kill(replica=2, after_requests=4))
    assert point.name == "c8-kill2"
