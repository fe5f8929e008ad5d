"""Snakemake's own ways hold: a module, handlers, the linter, and what is taken of its insides."""

import re

from tests.paths import ROOT
from tests.workspace import Workspace

MINE = """\
onstart:
    shell("echo began >> handlers.txt")


module servetune:
    snakefile: "Snakefile"
    config: config


use rule * from servetune as bench_*


rule first_line:
    input: "reports/summary.md"
    output: "first.txt"
    shell: "head -1 {input} > {output}"


onsuccess:
    shell("echo went well >> handlers.txt")
"""


def test_a_module_runs_as_the_workflow_does_beside_rules_and_handlers_of_ones_own(
    workspace: Workspace,
) -> None:
    (workspace.root / "mine.smk").write_text(MINE)
    words = ("snakemake", "-s", "mine.smk", "--cores", "1", "first.txt")
    told = workspace.check(*words, "--config", "variants=[plain]")
    # The end of a run, and nothing of Snakemake's own.
    assert "The report: reports/summary.html" in told and "Building DAG" not in told
    assert workspace.launches() == 1
    assert (workspace.root / "first.txt").read_text().strip()
    handled = (workspace.root / "handlers.txt").read_text().splitlines()
    assert handled == ["began", "went well"]
    assert workspace.check("git", "config", "merge.ours.driver").strip() == "true"
    # A mistake is one line there too.
    workspace.write_study({**workspace.study, "models": {}})
    refused = workspace.run(*words)
    assert refused.returncode == 1 and "\nservetune: studies/standin.yaml: " in refused.stderr


def test_a_prefix_of_a_module_is_refused_before_anything_is_measured(workspace: Workspace) -> None:
    module = MINE.replace('snakefile: "Snakefile"', 'snakefile: "Snakefile"\n    prefix: "mine"')
    (workspace.root / "mine.smk").write_text(module)
    refused = workspace.run("snakemake", "-s", "mine.smk", "--cores", "1", "first.txt")
    assert refused.returncode == 1
    assert "\nservetune: prefix: " in refused.stderr
    assert workspace.launches() == 0


def test_the_linter_misses_nothing_but_environments_which_the_plan_pins(
    workspace: Workspace,
) -> None:
    said = workspace.run("snakemake", "--lint").stderr
    complaints = set(re.findall(r"^ +\* (.*):$", said, re.MULTILINE))
    assert complaints == {"Specify a conda environment or container for each rule."}


def test_one_file_names_the_insides_of_snakemake() -> None:
    files = [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    named = {file.name for file in files if re.search(r"\bworkflow\.\w", file.read_text())}
    assert named == {"snakemake.smk"}
