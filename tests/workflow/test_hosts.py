"""Hosts that lack something: what is measured there is whole, or refused in a line."""

import subprocess

import pytest

from tests.workspace import TABLES, Workspace

SNAKEMAKE = ("snakemake", "--cores", "1", TABLES)

FILL = """
mount -t tmpfs -o size=2m none .servetune || exit
{
    until ls .servetune/running/session-* > /dev/null 2>&1; do sleep 0.1; done
    cat /dev/zero > .servetune/rest
} &
snakemake --cores 1 "$1"; code=$?
[ -s .servetune/rest ] || exit 3
exit $code
"""


def unshared(*what: str) -> list[str]:
    """Return a command that runs another one without something of this host's."""
    command = ["unshare", "--map-root-user", *what]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may unshare nothing")
    return command


def test_a_disk_that_gets_full_below_the_progress_of_a_load_ends_no_load(
    workspace: Workspace,
) -> None:
    study = workspace.study
    del study["variants"]["fp8-kv"]
    workspace.write_study(study)
    (workspace.root / ".servetune").mkdir()
    workspace.environment = workspace.cold
    workspace.check(*unshared("--mount"), "sh", "-c", FILL, "sh", TABLES)
    records = workspace.records()
    assert len(records) == 2 and {record["status"] for record in records.values()} == {"ok"}
    assert workspace.launches() == 1


def test_a_host_without_loopback_is_refused_in_a_line_before_any_launch(
    workspace: Workspace,
) -> None:
    workspace.environment = workspace.cold
    done = workspace.run(*unshared("--net"), *SNAKEMAKE)
    assert done.returncode == 1
    line = "servetune: 127.0.0.1: this host does not reach itself there (Network is unreachable)"
    assert line in done.stderr and "Traceback" not in done.stderr
    assert not list((workspace.root / "results").rglob("server-*.log"))
    assert workspace.records() == {}
