"""Life with a study: names change, branches merge, and nothing is measured twice."""

from typing import Any

from tests.workspace import Workspace


def rename(study: dict[str, Any], section: str, old: str, new: str) -> None:
    study[section] = {new if name == old else name: of for name, of in study[section].items()}


def test_a_renamed_variant_and_workload_are_shown_and_rendered_and_not_measured_again(
    measured: Workspace,
) -> None:
    measured.commit("Measured")
    study = measured.study
    rename(study, "variants", "fp8-kv", "small-cache")
    rename(study, "workloads", "random", "short")
    measured.write_study(study)
    shown = measured.check("servetune", "show")
    assert "small-cache" in shown and "short" in shown and "fp8-kv" not in shown
    assert "to measure" not in measured.check("servetune", "plan")
    assert "measure_session" not in measured.measure()
    assert measured.launches() == 2
    assert set(measured.metrics()) == {"plain", "small-cache"}
    assert set(measured.metrics()["small-cache"]) == {"short"}
    for page in ("summary.html", "summary.md"):
        assert "small-cache" in (measured.root / "reports" / page).read_text()
    compared = measured.check("servetune", "compare", "main")
    assert "small-cache" in compared and "the same measurements on both sides" in compared
    assert "new here" not in compared and "not measured here any more" not in compared


def test_branches_that_measured_different_variants_merge_and_measure_nothing_again(
    workspace: Workspace,
) -> None:
    study = workspace.study
    study["variants"]["two"] = {"model": "standin", "server": {"max_num_seqs": 2}}
    workspace.write_study(study)
    workspace.commit("Three variants")
    for branch, variants in (("one", ["plain", "fp8-kv"]), ("other", ["plain", "two"])):
        workspace.check("git", "checkout", "-q", "-b", branch, "main")
        options = ("--config", f"variants={variants}")
        workspace.check("snakemake", "--cores", "1", "reports/summary.html", *options)
        workspace.check("dvc", "commit", "--force")
        workspace.commit(f"Measured {variants}")
    measured = workspace.launches()
    assert measured == 4, "both measured plain"
    workspace.check("git", "merge", "one")
    assert "measure_session" not in workspace.measure()
    assert set(workspace.metrics()) == {"plain", "fp8-kv", "two"}
    assert workspace.launches() == measured


def test_clean_removes_what_no_branch_names_once_it_is_told_to(measured: Workspace) -> None:
    measured.check("dvc", "commit", "--force")
    measured.commit("Two variants")
    measured.check("git", "checkout", "-q", "-b", "fewer")
    study = measured.study
    del study["variants"]["fp8-kv"]
    measured.write_study(study)
    measured.commit("One variant")
    assert "nothing to remove" in measured.check("servetune", "clean")
    measured.check("git", "branch", "-D", "main")
    before = measured.records()
    assert "run: uv run servetune clean --yes" in measured.check("servetune", "clean")
    assert measured.records() == before
    measured.check("servetune", "clean", "--yes")
    left = [path.name for path in measured.root.glob("results/**/*-r1-*") if path.suffix != ".lock"]
    assert left and all(name.startswith("plain-") for name in left)
    measured.measure()
    assert measured.launches() == 1
    assert set(measured.metrics()) == {"plain"}
