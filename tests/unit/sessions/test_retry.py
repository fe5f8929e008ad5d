"""Records that are forgotten or set aside: what a session keeps of the launches that it had."""

import shutil
from pathlib import Path

import pytest

from servetune.doctor import Broken, set_aside
from servetune.files import write_json
from servetune.plan.kept import next_launch, session_record
from servetune.records.measurements import read_measurement
from servetune.records.paths import record_path, session_path
from servetune.records.sessions import read_session
from servetune.sessions.retry import forget
from tests.paths import GALLERY
from tests.recorded import plan_of

STUDY = "h200-llama8b"


@pytest.mark.parametrize("command", ["retry", "doctor"])
def test_a_session_that_goes_on_in_a_clone_keeps_the_launches_of_its_record(
    tmp_path: Path, command: str
) -> None:
    shutil.copytree(GALLERY / "results" / STUDY, tmp_path / "results" / STUDY)
    session = plan_of(STUDY).sessions[0]
    had = read_session(session_path(STUDY, session.id, tmp_path)).launches
    path = record_path(STUDY, session.measurements[0].id, tmp_path)
    if command == "retry":
        died = {"status": "failed", "reason": "the server died", "metrics": None}
        write_json(path, read_measurement(path).model_copy(update=died))
        assert forget(STUDY, tmp_path)["failed"] == 1
    else:
        path.write_text("{")
        set_aside([Broken(path, "damaged", aside=path)], tmp_path)
    assert not session_path(STUDY, session.id, tmp_path).exists()
    assert session_record(session, tmp_path).launches == had
    assert next_launch(session, tmp_path) == had[-1].launch + 1
