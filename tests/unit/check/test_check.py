"""`servetune check` on a server that answers: what it sends, tells and writes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servetune.plan.make import make_plan
from tests.project import Project
from tests.standin.serving import KEY, Server, serving, write_model

WIDE = ("--ttft", "1000000", "--tpot", "1000000")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        with serving(write_model(folder), folder) as running:
            yield running


def command(server: Server, *words: str) -> list[str]:
    url = str(server.http.base_url)
    return [sys.executable, "-m", "servetune", "check", url, "--key-env", "SOME_KEY", *words]


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "SOME_KEY": KEY, "SERVETUNE_CACHE": str(tmp_path / "cache")}


def check(
    server: Server, tmp_path: Path, *words: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(server, *words),
        cwd=tmp_path,
        env={**environment(tmp_path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def sent_to(server: Server) -> int:
    return int(server.counter("vllm:request_success_total", finished_reason="length"))


def told(server: Server, tmp_path: Path, *words: str) -> dict[str, Any]:
    done = check(server, tmp_path, "--json", *words)
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_it_sends_no_more_than_it_may_and_says_where_it_ended(
    server: Server, tmp_path: Path
) -> None:
    before = sent_to(server)
    found = told(server, tmp_path, "--requests", "60", *WIDE)
    assert [level["clients"] for level in found["levels"]] == [1, 8, 16]
    assert found["ended"] == "at its limit of 60 requests"
    assert (found["serves"], found["breaks_at"]) == (16, None)
    assert found["spent"]["requests"] == sent_to(server) - before == 57
    assert found["model"] == "it" and found["fingerprint"]["max_model_len"] == "4096"
    # What it counted is no concern of the next one.
    assert [*(tmp_path / "cache/endpoints").iterdir()] == []


def test_what_breaks_and_what_the_server_told_there_is_said(server: Server, tmp_path: Path) -> None:
    done = check(server, tmp_path, "--tpot", "0.001", "--ttft", "1000000")
    assert done.returncode == 0, done.stderr
    assert "1 client: 8 requests\n" in done.stderr
    assert "Not even 1 client is served within" in done.stdout
    assert "It breaks at 1 by TPOT (p90 " in done.stdout
    assert "KV cache at 0 % there" in done.stdout


def test_the_study_that_it_writes_plans_and_sends_the_same(
    server: Server, tmp_path: Path, project: Project
) -> None:
    study = project.root / "studies/check-it.yaml"
    assert told(server, tmp_path, "--requests", "30", "--out", str(study), *WIDE)
    plan = make_plan({**project.params, "study": "check-it"}, project.root)
    (session,) = plan.sessions
    loads = [(m.load.concurrency, m.load.requests) for m in session.measurements]
    assert loads == [(1, 8), (8, 16)]
    assert session.endpoint and session.endpoint.key_env == "SOME_KEY"
    assert KEY not in study.read_text()


def test_ctrl_c_keeps_what_was_found(server: Server, tmp_path: Path) -> None:
    words = command(server, "--requests", "100000", "--highest", "8", "--tokens", "200", *WIDE)
    started = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    while "8 clients" not in (line := started.stderr.readline()):
        assert line, "it ended before"
    started.send_signal(signal.SIGINT)
    output, _ = started.communicate()
    assert started.returncode == 130
    assert "It ended by Ctrl-C" in output and "1 client" in output
    assert (tmp_path / "check-it.yaml").is_file()


@pytest.mark.parametrize(
    ("words", "variables", "expected"),
    [
        (("--key-env", "NO_KEY"), {}, "--key-env: NO_KEY: not set"),
        (("--key-env", "sk-123 456"), {}, "--key-env: expected the name of the variable"),
        (("--header", "X-Key=a b"), {}, "--header: expected NAME=VARIABLE"),
        (("--model", "that"), {}, "the endpoint has no model that; expected one of it"),
        ((), {"SOME_KEY": "another-key-0123"}, "the endpoint does not take the key: HTTP 401"),
        (("--ttft", "0"), {}, "--ttft: 0: expected a number above 0"),
    ],
)
def test_why_it_cannot_be_checked_is_one_line(
    server: Server, tmp_path: Path, words: tuple[str, ...], variables: dict[str, str], expected: str
) -> None:
    done = check(server, tmp_path, *words, **variables)
    assert done.returncode == 2 and done.stdout == ""
    assert expected in done.stderr and done.stderr.count("\n") == 1


def test_an_endpoint_that_refuses_is_left_alone_and_what_was_found_is_told(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        fails = ("--standin-fault", "fail-requests", "--standin-fault-after", "3")
        with serving(write_model(tmp_path), tmp_path, *fails) as server:
            done = check(server, tmp_path, *WIDE)
            assert sent_to(server) < 40
    assert done.returncode == 0, done.stderr
    assert "as it refused 5 of the last" in done.stdout
