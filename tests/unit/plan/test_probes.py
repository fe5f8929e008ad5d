"""The probes of a search: what identifies them, and what becomes of those of no use."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.capacity.pace import Slice
from servetune.capacity.search import NextProbe
from servetune.capacity.sequential import Evidence, Judgement
from servetune.files import write_json
from servetune.plan.identity import Identity, Serving
from servetune.plan.pending import pending_of
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.plan.probes import (
    MOST_USELESS,
    PILOT_CONCURRENCY,
    history,
    next_measurement,
    nothing_found,
    pilot,
    probe,
)
from servetune.records.loads import PlannedTraffic
from servetune.records.measurements import MeasurementRecord, Metrics, Probe
from servetune.records.paths import record_path, search_path
from servetune.records.searches import read_search
from servetune.sessions.probed import found_by
from servetune.sessions.recorder import write_ended
from servetune.study.capacity import Search, Slo
from tests.report_data import make_quickstart_plan


def search(**settings: Any) -> PlannedSearch:
    slo = {"chat": Slo(ttft_p90_ms=500)}
    declared = {"slo": slo, "lowest": 1, "highest": 100, **settings}
    traffic = PlannedTraffic(dataset="text-abc", endpoint="completions", seed=0)
    serving = Serving(
        server={},
        speculative=None,
        environment={},
        engine="e",
        model="m",
        draft=None,
        repeat=1,
        hardware="cpu",
    )
    return PlannedSearch(
        id="bf16-chat-capacity-r1-abc",
        workload="chat",
        load=traffic,
        identity=Identity(protocol=2, serving=serving, load={}, tool=None),
        settings=Search.model_validate(declared),
    )


def record(measured: Measurement, status: str = "ok", requests: int = 300) -> MeasurementRecord:
    metrics = Metrics(
        requests=requests,
        completed_requests=requests,
        failed_requests=0,
        duration_s=10,
        input_tokens=1,
        output_tokens=1,
        request_throughput_rps=30,
        output_throughput_tok_s=1,
        total_throughput_tok_s=1,
        e2e_mean_ms=1000,
    )
    evidence = Evidence("ttft_p90_ms", requests, 1, 0.1, 3.0, 4.0, -1.0)
    judged = {"chat": Judgement("pass", "ttft_p90_ms", (evidence,))}
    place = measured.probe
    assert place is not None
    return MeasurementRecord(
        measurement=measured.id,
        study="s",
        variant="bf16",
        workload="chat",
        load_point=measured.load_point,
        repeat=1,
        status=status,
        reason="the client was late" if status != "ok" else None,
        session="bf16-r1-abc",
        launch=1,
        load=measured.load,
        server_command=[],
        load_command=[],
        metrics=metrics,
        probe=Probe(
            search=place.search,
            index=place.index,
            tier=place.rule.tier if place.rule else "",
            stopped="requests",
            judgements=judged if place.index else {},
        ),
    )


def test_a_probe_is_named_by_its_place_its_load_and_its_rule() -> None:
    here = search()
    first = probe(here, 1, NextProbe(10.0, "chat"))
    assert first.id.startswith("bf16-chat-capacity-r1-1-r10-")
    others = [
        probe(here, 2, NextProbe(10.0, "chat")),
        probe(here, 1, NextProbe(11.0, "chat")),
        probe(search(confidence=0.9), 1, NextProbe(10.0, "chat")),
    ]
    assert len({first.id, *(each.id for each in others)}) == 4
    # What only says where the search ends changes no probe.
    assert probe(search(tolerance=0.1, probes=3), 1, NextProbe(10.0, "chat")) == first


def test_probes_have_arrivals_of_their_own() -> None:
    seeds = {probe(search(), index, NextProbe(10.0, "chat")).load.seed for index in (1, 2, 3)}
    assert len(seeds) == 3


def test_the_first_probe_goes_to_what_littles_law_predicts() -> None:
    here = search()
    first = next_measurement(here, [])
    assert first == pilot(here)
    second = next_measurement(here, [record(first)])
    assert not isinstance(second, dict)
    # 16 in flight for 1 s each: 16 a second, of which four fifths.
    assert second.load.rate_rps == pytest.approx(0.8 * PILOT_CONCURRENCY)


def test_an_invalid_probe_is_no_evidence_and_too_many_end_the_search() -> None:
    here = search()
    records = [record(pilot(here))]
    for index in range(1, MOST_USELESS + 1):
        following = next_measurement(here, records)
        assert not isinstance(following, dict)
        assert following.probe is not None and following.probe.index == index
        records.append(record(following, status="invalid"))
    assert all(not each.judgements["chat"].evidence for each in history(here, records))
    ended = next_measurement(here, records)
    assert isinstance(ended, dict)
    assert (ended["chat"].ended, ended["chat"].capacity) == ("failed", None)
    assert "the client was late" in ended["chat"].reason


def test_useless_probes_end_the_search_only_if_nothing_of_use_came_between() -> None:
    here = search()
    records = [record(pilot(here))]
    for status in [*["invalid"] * (MOST_USELESS - 1), "ok", *["invalid"] * (MOST_USELESS - 1)]:
        following = next_measurement(here, records)
        assert not isinstance(following, dict)
        records.append(record(following, status=status))
    assert not isinstance(next_measurement(here, records), dict)


def test_a_load_that_a_neighbour_spoiled_is_sent_again() -> None:
    here = search()
    records = [record(pilot(here))]
    first = next_measurement(here, records)
    assert not isinstance(first, dict)
    spoiled = record(first, status="invalid").model_copy(update={"rule": "other-processes"})
    again = next_measurement(here, [*records, spoiled])
    assert not isinstance(again, dict)
    assert again.load.rate_rps == first.load.rate_rps
    assert again.load.seed != first.load.seed
    late = spoiled.model_copy(update={"rule": "client-late"})
    lower = next_measurement(here, [*records, late])
    assert not isinstance(lower, dict)
    assert (lower.load.rate_rps or 0) < (first.load.rate_rps or 0)


def test_a_probe_that_could_not_be_made_still_belongs_to_its_search() -> None:
    here = search()
    found = nothing_found(probe(here, 3, NextProbe(10.0, "chat")))
    assert found is not None
    assert (found.search, found.index, found.stopped) == (here.id, 3, "failed")
    assert not found.judgements


@pytest.mark.parametrize(("sent", "stopped"), [(30, "seconds"), (1000, "requests")])
def test_a_probe_that_sent_all_its_requests_used_them_up_and_otherwise_its_seconds(
    sent: int, stopped: str
) -> None:
    """However long before the end the last request of a low rate came."""
    made = probe(search(probe_requests=250), 1, NextProbe(5.0, "chat"))
    rows = {"scheduled": range(sent), "start_s": [8.0 * i / sent for i in range(sent)]}
    # One in nine violates the SLO, which allows one in ten: nothing is decided.
    slow: dict[str, Any] = {"ttft_ms": [1000.0 * (i % 9 == 0) for i in range(sent)]}
    same = {"error": None, "is_ok": True, "e2e_ms": 1000.0, "tpot_ms": 10.0}
    requests = pd.DataFrame({**rows, **slow, "itl_ms": [()] * sent}).assign(**same)
    assert made.probe is not None
    assert found_by(made.probe, made.load, requests, None).stopped == stopped


def searching() -> Session:
    """Return a session that owes nothing but a search."""
    session = make_quickstart_plan().sessions[0]
    owed = {"measurements": [], "quality": None, "searches": [search()]}
    return session.model_copy(update=owed)


def measured(session: Session, root: Path) -> list[MeasurementRecord]:
    """Record useless probes until the search of a session needs no more."""
    records: list[MeasurementRecord] = []
    while not isinstance(following := next_measurement(session.searches[0], records), dict):
        records.append(record(following, status="invalid" if records else "ok"))
        write_json(record_path(session.study, following.id, root), records[-1])
    return records


def test_to_ask_what_a_session_owes_writes_nothing(tmp_path: Path) -> None:
    session = searching()
    assert pending_of(session, tmp_path).count == 1
    measured(session, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert pending_of(session, tmp_path).count == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_owed_follows_from_the_records_that_are_kept(tmp_path: Path) -> None:
    """A search goes on with what is on disk: to keep a record reads no other one again."""
    session = searching()
    pending = pending_of(session, tmp_path)
    records = measured(session, tmp_path)
    for each in records:
        record_path(session.study, each.measurement, tmp_path).unlink()
    for count, each in enumerate(records):
        assert pending.next is not None and pending.next.id == each.measurement
        assert pending.closed_loops == ([] if count else [pending.next])
        pending = pending.after(each)
    assert pending.next is None and pending.count == 0
    (ended,) = pending.ended
    assert ended.measurements == [each.measurement for each in records]
    assert pending.without([ended]).searches == ()


def test_a_search_ends_once_its_last_probe_is_recorded(tmp_path: Path) -> None:
    session = searching()
    path = search_path(session.study, session.searches[0].id, tmp_path)
    records = measured(session, tmp_path)
    last = record_path(session.study, records[-1].measurement, tmp_path)
    kept = last.read_bytes()
    last.unlink()
    write_ended(pending_of(session, tmp_path))
    assert not path.exists()
    last.write_bytes(kept)
    write_ended(pending_of(session, tmp_path))
    ended = read_search(path)
    assert ended.measurements == [each.measurement for each in records]
    assert ended.tiers["chat"].ended == "failed"


def slices(slow_from_s: float) -> tuple[Slice, ...]:
    """Return a probe's slices of 2 s, whose pace halves at a time."""
    return tuple(
        Slice(at, at + 2.0, 30, 40.0 if at >= slow_from_s else 20.0, 0.02, 10.0, 0.1)
        for at in range(0, 20, 2)
    )


def test_a_search_whose_server_was_not_steady_has_ended_and_owes_nothing(tmp_path: Path) -> None:
    session = searching()
    (here,) = session.searches
    records: list[MeasurementRecord] = []
    while not isinstance(following := next_measurement(here, records), dict):
        made = record(following, requests=3000)
        share = 0.1 * ((following.load.rate_rps or 0) / 20) ** 16
        evidence = Evidence("ttft_p90_ms", 3000, 3000 * min(share, 0.9), 0.1, 3.0, 0.0, 0.0)
        assert made.probe is not None
        found = made.probe.model_copy(
            update={
                "judgements": {"chat": Judgement("undecided", "ttft_p90_ms", (evidence,))},
                "slices": slices(12 if len(records) == 2 else 20),
            }
        )
        minute = f"2026-01-01T10:{len(records):02}:00+00:00"
        records.append(made.model_copy(update={"probe": found, "started_at": minute}))
        write_json(record_path(session.study, following.id, tmp_path), records[-1])
    write_ended(pending_of(session, tmp_path))
    ended = read_search(search_path(session.study, here.id, tmp_path)).tiers["chat"]
    assert (ended.ended, ended.capacity) == ("unsteady", None)
    (slow,) = ended.changes or ()
    assert (slow.since_s, slow.until_s) == (120 + 12, 120 + 20)
    assert slow.speed == pytest.approx(0.5, rel=0.05)
    assert pending_of(session, tmp_path).count == 0
