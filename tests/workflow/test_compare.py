"""`servetune compare` says what a change did, in Markdown that a reviewer can sign."""

import pytest

from tests.workspace import Workspace


@pytest.fixture
def committed(workspace: Workspace) -> Workspace:
    """A workspace whose results of three repeats are committed."""
    study = workspace.study
    study["repeats"] = 3
    study["variants"] = {"plain": {"model": "standin"}}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 64}]
    workspace.write_study(study)
    workspace.collect()
    workspace.commit("A baseline")
    return workspace


def test_a_change_is_judged_against_another_revision(committed: Workspace) -> None:
    same = committed.run("servetune", "compare", "main", "--fail-on", "slower")
    assert same.returncode == 0, same.stderr
    assert "No parameter of params.yaml or the study changed." in same.stdout
    assert "the same measurements on both sides" in same.stdout

    committed.set_params(max_num_seqs=1)
    stale = committed.run("servetune", "compare", "main")
    assert stale.returncode == 2
    assert "run: uv run snakemake --cores 1 reports/summary.html" in stale.stderr
    committed.collect()
    # The server takes one request at a time instead of eight. Whether three launches prove it is up
    # to this machine; the exit code is that of what is told.
    slower = committed.run("servetune", "compare", "main", "--fail-on", "slower")
    told = slower.stdout
    assert slower.returncode == ("**slower**" in told), slower.stderr
    assert committed.run("servetune", "compare", "main").returncode == 0
    assert "| max_num_seqs | \N{EN DASH} | 1 |" in told
    assert "| scheduler_config.max_num_seqs | 8 | 1 | all |" in told
    row = next(line for line in told.splitlines() if line.startswith("| plain | random · c8"))
    assert " tok/s: " in row and "**faster**" not in row.split(" tok/s: ")[1].split("|")[0]
    assert "Engine, models and host are the same on both sides." in told

    # A failure, a variant of one side, and a baseline that failed are told and end nothing.
    committed.commit("One at a time")
    study = committed.study
    server = {"max_num_seqs": 4}
    study["variants"]["new"] = {"model": "standin", "server": server, "repeats": 1}
    committed.write_study(study)
    committed.set_params(max_num_seqs=None, max_model_len=10_000_000)
    committed.collect()
    failed = committed.run("servetune", "compare", "main~1", "--fail-on", "slower")
    assert failed.returncode == 0, failed.stderr
    assert "| plain | random · c8 | " in failed.stdout and "failed here: " in failed.stdout
    assert "| new | random · c8 | new here" in failed.stdout
    committed.commit("Too long")
    committed.set_params(max_model_len=None, variants=["plain"])
    committed.collect()
    recovered = committed.check("servetune", "compare", "main")
    assert "failed at the base: " in recovered
    assert "| new | random · c8 | not measured here any more" in recovered


def test_a_revision_that_cannot_be_compared_is_one_line(workspace: Workspace) -> None:
    for revision, expected in (("mian", "no such Git revision"), ("main", "tables")):
        done = workspace.run("servetune", "compare", revision)
        assert done.returncode == 2
        assert expected in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
