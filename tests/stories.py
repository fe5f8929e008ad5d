"""Results of a study as a host has them at some time: launches that go on, with all their files."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.files import write_json, write_table
from servetune.load.request_table import aggregate, attained, by_turn, quantiles
from servetune.plan.identity import digest
from servetune.plan.planned import PlannedQuality, Session
from servetune.records.measurements import MeasurementRecord, read_measurement
from servetune.records.paths import launch_path, quality_path, raw_folder, record_path
from servetune.records.quality import QualityRecord
from servetune.records.sessions import Launch, read_session
from tests.paths import GALLERY
from tests.recorded import plan_of

STUDY = "h200-granite"
LOG_LINE = "INFO: {} was served\n"


def _asked_for_quality(session: Session) -> Session:
    quality = PlannedQuality(
        id=f"{session.variant}-quality-0123456789ab", corpus="text-0123456789ab"
    )
    asked = session.model_copy(update={"quality": quality})
    return asked.with_id(f"{session.variant}-r{session.repeat}-{digest(asked.owed)}")


PLANNED = [session for session in plan_of(STUDY).sessions if len(session.measurements) == 4]
SESSIONS = [_asked_for_quality(session) for session in PLANNED]
"""Sessions of a recorded study that are asked for their quality too."""

LAST = 5
"""So many things a session measures here: four load points, in two launches, and its quality."""

FIRST_LAUNCH = 2
"""So many of them its first launch measures."""


def write_story(root: Path, done: int = LAST, sessions: list[Session] = SESSIONS) -> None:
    """Write what sessions have once so many things are measured, and what their manifest is.

    A launch that is not the last of these measured runs still.
    """
    write_json(root / MANIFEST, Manifest(study=STUDY, sessions=sessions, engines={}))
    for session in sessions:
        recorded = read_session(
            GALLERY / "results" / STUDY / "sessions" / f"{_planned(session)}.json"
        )
        ids = [m.id for m in session.measurements[:4]]
        ids = [*ids, *([session.quality.id] if session.quality else [])]
        is_whole, ids = done >= len(ids), ids[:done]
        for number, measured in ((1, ids[:FIRST_LAUNCH]), (2, ids[FIRST_LAUNCH:])):
            is_over = done > FIRST_LAUNCH if number == 1 else is_whole
            if measured:
                _write_launch(root, session, recorded.launches[0], number, measured, is_over)


def _planned(session: Session) -> str:
    return next(planned.id for planned in PLANNED if planned.variant == session.variant)


def _write_launch(
    root: Path, session: Session, like: Launch, number: int, ids: list[str], is_over: bool
) -> None:
    begun = {"launch": number, "measured": ids, "started_at": f"2026-11-01T0{number}:00:00+00:00"}
    over = {"stopped_at": f"2026-11-01T0{number}:30:00+00:00" if is_over else None}
    launch = like.model_copy(update={**begun, **over})
    write_json(launch_path(STUDY, session.id, number, root), launch)
    raw = raw_folder(STUDY, session.id, root)
    (raw / f"server-{number}.log").write_text("".join(map(LOG_LINE.format, ids)))
    rows = [
        {"time_s": float(place), "measurement": id, "requests_running": 1.0 + place}
        for place, id in enumerate(ids)
    ]
    write_table(raw / f"telemetry-{number}.parquet", pd.DataFrame(rows))
    for id in ids:
        if session.quality and id == session.quality.id:
            write_json(quality_path(STUDY, id, root), _quality(session, number))
            continue
        named = {"session": session.id, "launch": number}
        record = read_measurement(record_path(STUDY, id, GALLERY)).model_copy(update=named)
        requests = _requests(record)
        write_json(record_path(STUDY, id, root), _of_requests(record, requests))
        write_table(raw_folder(STUDY, id, root) / "requests.parquet", requests)


def _quality(session: Session, number: int) -> QualityRecord:
    assert session.quality
    return QualityRecord(
        quality=session.quality.id,
        study=STUDY,
        variant=session.variant,
        status="failed",
        session=session.id,
        launch=number,
        corpus=session.quality.corpus,
        server_command=[],
    )


def _requests(record: MeasurementRecord) -> pd.DataFrame:
    one: dict[str, Any] = {
        **dict.fromkeys(("scheduled", "conversation", "turn"), 0),
        **{"is_counted": True, "is_ok": True, "error": None, "start_s": 0.0},
        **{"send_delay_ms": 0.0, "asked_output_tokens": 2, "input_tokens": 3},
        **{"output_tokens": 2, "cached_tokens": None, "ttft_ms": 1.0, "e2e_ms": 2.0},
        **{"tpot_ms": 1.0, "itl_ms": [1.0]},
    }
    rows = [{**one, "scheduled": place} for place in range(record.load.concurrency or 1)]
    return pd.DataFrame(rows)


def _of_requests(record: MeasurementRecord, requests: pd.DataFrame) -> MeasurementRecord:
    """Return a record with the numbers of other requests."""
    attained_before = record.attained.limits_ms if record.attained else {}
    numbers = {
        "metrics": aggregate(requests, {}, record.load),
        "quantiles": quantiles(requests),
        "attained": attained(requests, attained_before),
        "turns": by_turn(requests),
    }
    return record.model_copy(update=numbers)


def write_clone(root: Path, story: Path) -> None:
    """Write what Git has of a story: its records, and none of its raw data."""
    for kind in ("records", "quality", "sessions"):
        if (story / "results" / STUDY / kind).is_dir():
            shutil.copytree(story / "results" / STUDY / kind, root / "results" / STUDY / kind)


def pack(story: Path, archive: Path) -> Path:
    """Pack a story as a host gives it back, or as somebody who means no good."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as out:
        out.add(story / MANIFEST, MANIFEST)
        out.add(story / "results", "results")
    return archive


def edit(path: Path, **values: Any) -> None:
    """Change values of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def content_of(root: Path) -> dict[str, bytes]:
    """Return all files of a project's results."""
    files = (path for path in (root / "results").rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}
