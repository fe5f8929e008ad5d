"""`snakemake` says of a bad input what `servetune plan` says: one line, and nothing runs."""

import os

import pytest

from tests.bad_inputs import EXPLODING
from tests.workspace import Workspace

PARAMS = {
    "other bytes": b"study: \xff",
    "aliases that explode": EXPLODING.encode(),
    "a key twice": b"study: standin\nstudy: standin\n",
    "a date": b"study: 2026-11-22\n",
    "a long number": b"study: standin\nseed: " + b"9" * 5000,
    "a wrong type": b"study: standin\nrepeats: true\n",
    "no keys": b"hello\n",
}


def lines(workspace: Workspace, *command: str) -> list[str]:
    done = workspace.run(*command)
    assert done.returncode
    assert "Traceback" not in done.stderr
    # Before it, Snakemake names its profile.
    return [line for line in done.stderr.splitlines() if "workflow specific profile" not in line]


@pytest.mark.parametrize("content", PARAMS.values(), ids=PARAMS)
def test_a_bad_params_yaml_is_the_same_line_to_both(workspace: Workspace, content: bytes) -> None:
    (workspace.root / "params.yaml").write_bytes(content)
    (line,) = lines(workspace, "snakemake", "-n")
    assert line.startswith("servetune: params.yaml: ")
    assert lines(workspace, "servetune", "plan") == [line]


def test_a_missing_params_yaml_and_a_fifo_are_one_line(workspace: Workspace) -> None:
    path = workspace.root / "params.yaml"
    path.unlink()
    (missing,) = lines(workspace, "snakemake", "-n")
    os.mkfifo(path)
    (fifo,) = lines(workspace, "snakemake", "-n")
    assert "params.yaml: no such file" in missing
    assert "params.yaml: is a pipe" in fifo


def test_no_code_of_params_yaml_runs(workspace: Workspace) -> None:
    path = workspace.root / "params.yaml"
    touch = '?__import__("pathlib").Path("touched").touch()'
    path.write_text(f"__use_yte__: true\nstudy: standin\n'{touch}': 1\n")
    assert "__use_yte__" in lines(workspace, "snakemake", "-n")[0]
    assert not (workspace.root / "touched").exists()


def test_the_command_line_still_sets_parameters(workspace: Workspace) -> None:
    workspace.dry_run("--config", "repeats=1", "max_num_seqs=4")
    (line,) = lines(workspace, "snakemake", "-n", "--config", "max_num_seqs=-4")
    assert "params.yaml: max_num_seqs: -4: " in line
