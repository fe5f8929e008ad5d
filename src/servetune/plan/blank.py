"""Records of which nothing is known yet; `launch` 0 is none."""

from collections.abc import Sequence
from typing import Any

from servetune.plan.planned import Measurement, PlannedQuality, Session
from servetune.plan.probes import nothing_found
from servetune.records.measurements import MeasurementRecord
from servetune.records.quality import QualityRecord


def blank_record(
    session: Session, measurement: Measurement, launch: int = 0, command: Sequence[str] = ()
) -> MeasurementRecord:
    """Return the record of a measurement."""
    return MeasurementRecord(
        measurement=measurement.id,
        workload=measurement.workload,
        load_point=measurement.load_point,
        repeat=session.repeat,
        load=measurement.load,
        load_command=[],
        probe=nothing_found(measurement),
        **_of_launch(session, launch, command),
    )


def blank_quality(
    session: Session, quality: PlannedQuality, launch: int = 0, command: Sequence[str] = ()
) -> QualityRecord:
    """Return the record of a quality."""
    origin = _of_launch(session, launch, command)
    questions = quality.questions.dataset if quality.questions else None
    return QualityRecord(quality=quality.id, corpus=quality.corpus, questions=questions, **origin)


def _of_launch(session: Session, launch: int, command: Sequence[str]) -> dict[str, Any]:
    return {
        "study": session.study,
        "variant": session.variant,
        "status": "failed",
        "session": session.id,
        "launch": launch,
        "server_command": list(command),
    }
