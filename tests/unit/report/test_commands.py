"""What others may have written in a record becomes no line of a command that a report prints."""

import json
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servetune.analysis.wording import comment, shell
from servetune.report.commands.section import command_of
from servetune.report.commands.section import section as commands
from servetune.report.reproduce.section import section as reproduce
from servetune.report.section import Fit
from tests.paths import GALLERY
from tests.report_data import ReportData, make_data, make_quickstart_plan

COMMANDS = ("server_command", "load_command")
COMMIT = "0b4e11e6a7c1f20d9f0d5c1be7e7bb3a0c9d1e2f"


def with_launches(**changes: Any) -> ReportData:
    """Return the quickstart as recorded, but for what each of its launches says of itself."""
    data = make_data(make_quickstart_plan())
    for record in data.sessions.values():
        record.launches[:] = [each.model_copy(update=changes) for each in record.launches]
    return data


def steps(data: ReportData) -> list[str]:
    """Return the lines by which a report says how to measure it again."""
    made = reproduce(data).words
    assert isinstance(made, dict)
    return [*made.values()]


def words_of(told: str) -> list[str]:
    """Return the words that a shell takes from a command; only bash reads line breaks."""
    if "$'" not in told:
        return shlex.split(told)
    printed = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {told}"], capture_output=True, check=True
    )
    return printed.stdout.decode().split("\0")[:-1]


def test_a_recorded_command_is_shown_as_it_was() -> None:
    records = [json.loads(file.read_bytes()) for file in GALLERY.glob("results/*/records/*.json")]
    assert records
    for command in (record[key] for record in records for key in COMMANDS):
        assert words_of(command_of(json.dumps(command))) == command


@given(st.lists(st.text(), min_size=1))
def test_a_command_is_one_line_of_the_recorded_words_or_says_why_not(words: list[str]) -> None:
    command = ["env", "A=b", "vllm", "serve", *words]
    told = command_of(json.dumps(command))
    assert len(told.splitlines()) == 1
    assert told.startswith("# not shown: ") or words_of(told) == command


def test_a_line_break_of_a_chat_template_is_written_within_its_line() -> None:
    template = "{{ m['role'] }}:\n\\n$(rm -rf ~)`x`\n"
    told = command_of(json.dumps(["vllm", "serve", "--chat-template", template]))
    assert len(told.splitlines()) == 1
    assert words_of(told) == ["vllm", "serve", "--chat-template", template]


@pytest.mark.parametrize(
    "command",
    [
        ["rm", "-rf", "~"],
        ["sh", "-c", "curl example.org | sh", "vllm", "serve"],
        ["env", "A=b; rm -rf ~", "rm", "-rf", "~"],
        ["env", "-S", "rm -rf ~", "vllm", "serve"],
        ["vllm", "collect-env"],
        [["vllm", "serve"]],
        {"vllm": "serve"},
        7,
    ],
)
def test_what_servetune_does_not_run_is_not_shown_as_a_command(command: Any) -> None:
    assert command_of(json.dumps(command)) == "# not shown: not a command of servetune"


def test_a_commit_is_checked_out_where_all_was_measured_on_it() -> None:
    assert f"git checkout {COMMIT}" in steps(with_launches())


@pytest.mark.parametrize(
    "commit", ["\nrm -rf ~\n#", f"{COMMIT}; rm -rf ~", "--force", ["a"], 7, None, COMMIT[:12]]
)
def test_a_commit_that_git_would_not_name_is_no_step(commit: Any) -> None:
    told = steps(with_launches(git={"commit": commit, "is_dirty": False}))
    assert not any("git checkout" in step for step in told)


def test_a_server_shows_which_variables_it_had_from_its_caller() -> None:
    data = with_launches(environment_from=["HF_TOKEN", "OPENAI_API_KEY"])
    made = commands(data)
    assert isinstance(made.words, list)
    assert {server["passed"] for server in made.words} == {"HF_TOKEN and OPENAI_API_KEY"}
    assert "with HF_TOKEN and OPENAI_API_KEY of the caller" in (made.markdown(Fit()) or "")


HOSTILE = ["\nrm -rf ~", "$(rm -rf ~)", "`id`", "a; b", "=(id)", "\x1b]0;"]


@given(st.text() | st.sampled_from(HOSTILE))
def test_a_comment_is_one_line_in_which_no_shell_finds_anything_to_do(text: str) -> None:
    line = comment(text)
    assert line.startswith("# ") and len(line.splitlines()) == 1
    assert not set("`$;&|<>\\!\"'\x1b\u202e") & set(line)
    assert "=(" not in line


UNSEEN: list[Any] = ["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"]


@given(st.lists(st.text(st.characters(exclude_categories=UNSEEN))))
def test_words_that_stand_in_a_line_come_back_from_it(words: list[str]) -> None:
    assert shlex.split(shell(words)) == words
