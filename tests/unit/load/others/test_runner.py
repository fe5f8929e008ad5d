"""The client of a generator of others: it runs a command a job, as a user would."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servetune.load.generator import Job
from servetune.load.process import LoadClient, LoadError
from tests.loads import load
from tests.standin.serving import PATIENCE_S


@pytest.fixture
def client(tmp_path: Path) -> Iterator[LoadClient]:
    module = "servetune.load.others.runner"
    client = LoadClient(module, {"KEY": "sesame"}, tmp_path / "client.log", tmp_path)
    try:
        client.wait_ready(PATIENCE_S)
        yield client
    finally:
        client.stop()


def run(client: LoadClient, code: str, schedule: Path) -> None:
    argv = [sys.executable, "-c", code]
    client.run(Job(argv=argv, schedule=schedule, load=load()), PATIENCE_S, lambda: None)


def test_a_command_has_the_key_in_its_environment_and_its_output_in_the_log(
    client: LoadClient, tmp_path: Path
) -> None:
    run(client, "import os; print('key', os.environ['KEY'])", tmp_path)
    assert "key sesame" in (tmp_path / "client.log").read_text()


def test_a_command_that_fails_says_why_and_the_next_one_runs(
    client: LoadClient, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match="exit code 3: no such model"):
        run(client, "import sys; print('no such model', file=sys.stderr); sys.exit(3)", tmp_path)
    run(client, f"open({str(tmp_path / 'made')!r}, 'w')", tmp_path)
    assert (tmp_path / "made").is_file()
