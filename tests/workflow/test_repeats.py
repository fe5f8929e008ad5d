"""Repeats are measured in the plan's interleaved order, each once."""

from typing import Any

from servetune.plan.order import measuring_order
from tests.workspace import Workspace


def order_measured(workspace: Workspace) -> list[tuple[str, int]]:
    """The sessions that launched a server, by the time at which they did."""
    launched = [s for s in workspace.sessions() if s["launches"]]
    launched.sort(key=lambda session: session["launches"][0]["started_at"])
    return [(session["variant"], session["repeat"]) for session in launched]


def launches(workspace: Workspace) -> dict[str, list[Any]]:
    sessions = workspace.sessions()
    return {s["session"]: [each["started_at"] for each in s["launches"]] for s in sessions}


def test_repeats_run_in_the_order_of_the_plan_on_one_device(workspace: Workspace) -> None:
    study = workspace.study
    study["models"]["other"] = {"source": "path", "path": "other"}
    study["variants"]["fp8-kv"]["model"] = "other"
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 8}]
    workspace.write_study(study)
    workspace.check("cp", "-r", "model", "other")
    workspace.set_params(repeats=2, seed=3)
    output = workspace.check("snakemake", "--cores", "3", "reports/summary.html")
    # There is a page to read after two sessions, until the whole one is there.
    assert "reports/partial/summary.html; still to come: 2 load points" in output
    assert not (workspace.root / "reports/partial/summary.html").exists()
    assert "were not present" not in output
    expected = measuring_order(["plain", "fp8-kv"], 2, 3)
    assert order_measured(workspace) == expected
    orders = {(s["variant"], s["repeat"]): s["order"] for s in workspace.sessions()}
    assert sorted(orders, key=orders.__getitem__) == expected

    # More repeats measure only what is new, and a lost record only its own session.
    kept = launches(workspace)
    first = workspace.sessions()[0]
    (workspace.root / f"results/standin/records/{first['measurements'][0]}.json").unlink()
    (workspace.root / f"results/standin/sessions/{first['session']}.json").unlink()
    workspace.set_params(repeats=3)
    workspace.collect()
    again = launches(workspace)
    assert len(again) == 6
    assert {id for id, started in kept.items() if again[id] != started} == {first["session"]}
