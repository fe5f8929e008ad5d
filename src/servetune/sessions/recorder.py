"""What a launch leaves: the file that tells of it, a record of all it measured, its telemetry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.files import write_json, write_table
from servetune.plan.blank import blank_quality, blank_record
from servetune.plan.pending import Pending
from servetune.plan.planned import Measurement
from servetune.records.base import Record
from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import (
    launch_path,
    quality_path,
    raw_folder,
    record_path,
    search_path,
)
from servetune.records.quality import QualityRecord
from servetune.records.sessions import Launch
from servetune.serving.fingerprint import digest_of
from servetune.serving.target import Target
from servetune.sessions.measure import LOG_TAIL_LINES, failed
from servetune.study.secrets import redacted
from servetune.telemetry.sampler import Sampler


def write_ended(pending: Pending) -> Pending:
    """Write the records of the searches that need no more probes; returns what is left."""
    ended = pending.ended
    for record in ended:
        write_json(search_path(record.study, record.search, pending.root), record)
    return pending.without(ended)


class Recorder:
    """Writes what a launch leaves, as it comes; `launch` is what is known of it so far.

    Its file is written again at each event, so that a launch that was interrupted is told too.
    `pending` is what the session still owes.
    """

    def __init__(self, pending: Pending, target: Target, launch: Launch) -> None:
        """Take what is known of a launch before it starts; nothing is written yet."""
        self._session = session = pending.session
        self._root = root = pending.root
        self._target = target
        self.launch = launch
        self.pending = pending
        self._raw = raw_folder(session.study, session.id, root)
        self._samples: Callable[[], pd.DataFrame] | None = None

    def note(self, **changes: Any) -> None:
        """Write what is known now of the launch, by the fields of `Launch`."""
        self.launch = self.launch.model_copy(update={**changes, **self._of_endpoint()})
        session = self._session
        path = launch_path(session.study, session.id, self.launch.launch, self._root)
        self._write(path, self.launch)

    @contextmanager
    def sampling(self, sampler: Sampler) -> Iterator[None]:
        """Sample, and write the samples before each record and at the end."""
        sampler.start()
        self._samples = sampler.samples
        try:
            yield
        finally:
            self._write_samples(sampler.stop())

    def keep(self, record: MeasurementRecord | QualityRecord) -> None:
        """Write a record, and those of the searches that have ended with it."""
        study = self._session.study
        if isinstance(record, QualityRecord):
            id, path = record.quality, quality_path(study, record.quality, self._root)
        else:
            id, path = record.measurement, record_path(study, record.measurement, self._root)
            told = digest_of(self.launch.fingerprint or {})
            record = record.model_copy(update={**self._of_endpoint(), "fingerprint": told})
        if self._samples:
            # First, so that no record stands whose samples a kill can lose.
            self._write_samples(self._samples())
        self._write(path, record)
        self.note(measured=[*self.launch.measured, id])
        self.pending = write_ended(self.pending.after(record))

    def fail(self, measurements: list[Measurement], reason: str) -> None:
        """Record a launch that failed, and what it could not measure because of that."""
        tail = self._target.log_tail(LOG_TAIL_LINES)
        self.note(status="failed", reason=reason, log_tail=tail)
        of = (self.launch.launch, self.launch.command)
        for measurement in measurements:
            blank = blank_record(self._session, measurement, *of)
            self.keep(failed(blank, reason, tail))

    def give_up(self, reason: str) -> None:
        """Record that nothing could be loaded: all that the session owes failed for this reason."""
        self.fail([*self.pending.load_points, *self.pending.closed_loops], reason)
        self.pending = write_ended(self.pending.given_up(reason))
        self.fail_quality(reason)

    def fail_quality(self, reason: str) -> None:
        """Record that the quality which the session owes, if any, could not be measured."""
        if quality := self.pending.quality:
            of = (self.launch.launch, self.launch.command)
            blank = blank_quality(self._session, quality, *of)
            self.keep(failed(blank, reason, self._target.log_tail(LOG_TAIL_LINES)))

    def _of_endpoint(self) -> dict[str, Any]:
        """Return what a record tells of an endpoint so far: what this launch took from it."""
        account = self._target.account
        return {"spent": account.spent} if account else {}

    def _write(self, path: Path, record: Record) -> None:
        """Write a record without secrets, wherever it has them from."""
        write_json(path, redacted(record.model_dump(mode="json"), self._target.secrets))

    def _write_samples(self, samples: pd.DataFrame) -> None:
        write_table(self._raw / f"telemetry-{self.launch.launch}.parquet", samples)
