"""What a server gets from its caller is there before it starts, and stands in no log or record."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from servetune.engines.vllm.dialect import DIALECT as VLLM
from servetune.errors import UserError
from servetune.plan.estimate import estimate
from servetune.plan.make import make_plan
from servetune.plan.times import Times
from servetune.serving.server import Server
from servetune.serving.target import ServerError
from servetune.sessions.passed import from_caller
from servetune.sessions.session import run_session
from servetune.study.secrets import redacted, secrets_of
from tests.project import Project

VALUE = "planted-0123456789"


def server(tmp_path: Path) -> Server:
    return Server(
        dialect=VLLM,
        python=Path(sys.executable),
        model="model",
        arguments=[],
        environment={},
        passed={"HF_TOKEN": VALUE},
        name="a-server",
        log=tmp_path / "server.log",
        folder=tmp_path,
    )


def test_variables_of_the_caller_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", VALUE)
    assert from_caller(["HF_TOKEN"]) == {"HF_TOKEN": VALUE}


@pytest.mark.parametrize("value", [None, ""])
def test_a_session_without_its_variable_is_refused_before_anything_starts(
    project: Project, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("HF_TOKEN", value)
    project.write_study({**project.study(), "environment_from": ["HF_TOKEN"]})
    plan = make_plan(project.params, project.root)
    before = sorted(project.root.rglob("*"))
    with pytest.raises(UserError, match=r"^environment_from: HF_TOKEN: not set; export it in"):
        run_session(plan.sessions[0], project.root)
    assert sorted(project.root.rglob("*")) == before


def test_the_plan_says_which_variables_a_run_needs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    project.write_study({**project.study(), "environment_from": ["HF_TOKEN"]})
    plan = make_plan(project.params, project.root)
    told = "environment_from: HF_TOKEN: not set here; a run needs a value"
    assert told in estimate(plan, Times(), []).warnings
    monkeypatch.setenv("HF_TOKEN", VALUE)
    assert told not in estimate(plan, Times(), []).warnings


def test_a_value_too_short_to_be_kept_out_of_logs_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEVEL", "debug")
    with pytest.raises(UserError, match=r"LEVEL: its value has fewer than 8 .* under environment"):
        from_caller(["LEVEL"])


def test_neither_a_log_nor_its_tail_holds_what_was_passed(tmp_path: Path) -> None:
    of = server(tmp_path)
    of.log.write_text(f"first\nHF_TOKEN={VALUE} and key {of.api_key}\n")
    assert of.log_tail(9) == ["first", "HF_TOKEN=*** and key ***"]
    assert VALUE not in "".join(of.command)
    assert of.choices() == {"choices": {}, "ignored": []}


def test_secrets_of_the_caller_that_no_study_names_are_kept_out_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-from-the-shell")
    of = server(tmp_path)
    of.log.write_text("sk-planted-from-the-shell\n")
    assert of.log_tail(1) == ["***"]


def test_a_key_of_vllms_in_the_shell_does_not_lock_out_whoever_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "a-key-of-the-shell")
    tells_its_variables = tmp_path / "python"
    tells_its_variables.write_text("#!/bin/sh\nenv\n")
    tells_its_variables.chmod(0o755)
    of = replace(server(tmp_path), python=tells_its_variables)
    of.start()
    with pytest.raises(ServerError):
        of.wait_ready(60.0, lambda seconds: None)
    of.stop()
    names = {line.partition("=")[0] for line in of.log.read_text().splitlines()}
    assert {"HF_TOKEN", "SERVETUNE_KEY"} <= names and "VLLM_API_KEY" not in names
    assert VALUE not in of.log.read_text() and of.api_key not in of.log.read_text()


def test_a_secret_within_another_leaves_no_rest() -> None:
    secrets = secrets_of(["planted-0123", "planted-0123456789"])
    content = {"a": ["x planted-0123456789 y", 3, None], "planted-0123": "planted-0123"}
    assert redacted(content, secrets) == {"a": ["x *** y", 3, None], "planted-0123": "***"}
