"""What a user gets from DVC: parameters, experiments and remotes around the same workflow.

The fixtures go on from one another: a run, its record in Git (the baseline), an experiment.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from tests.workspace import Workspace, copy_tree, make_workspace


@pytest.fixture(scope="module")
def baseline_once(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A workspace that was measured and recorded by DVC, and committed to Git.

    Its steps are so long that a busy machine hides no gain of eight sequences over one.
    """
    made = make_workspace(tmp_path_factory.mktemp("baseline") / "workspace", engine_cache)
    study = made.study
    study["server"]["standin_step_ms"] = 20
    made.write_study(study)
    made.check("dvc", "repro")
    made.commit("A baseline")
    return made


@pytest.fixture
def baseline(baseline_once: Workspace, tmp_path: Path) -> Workspace:
    return _copy(baseline_once, tmp_path / "workspace")


@pytest.fixture(scope="module")
def one_at_a_time_once(
    baseline_once: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Workspace:
    """The baseline after `dvc exp run -S max_num_seqs=1`, applied but not committed."""
    made = _copy(baseline_once, tmp_path_factory.mktemp("experiment") / "workspace")
    # Once with the commands as a user starts them.
    made.environment = made.cold
    made.check("dvc", "exp", "run", "-n", "one", "-S", "max_num_seqs=1")
    return made


@pytest.fixture
def one_at_a_time(one_at_a_time_once: Workspace, tmp_path: Path) -> Workspace:
    return _copy(one_at_a_time_once, tmp_path / "workspace")


def test_dvc_repro_measures_once_and_then_has_nothing_to_do(baseline: Workspace) -> None:
    assert baseline.launches() == 2
    assert baseline.metrics()["plain"]["random"]["c8"]["ok"] == 1
    again = baseline.check("dvc", "repro")
    assert "didn't change, skipping" in again
    assert "snakemake" not in again


@pytest.mark.parametrize("recorded_by", [("repro",), ("commit", "--force")])
def test_a_run_of_snakemake_alone_is_recorded_without_measuring(
    baseline: Workspace, recorded_by: tuple[str, ...]
) -> None:
    baseline.check("rm", "-rf", "dvc.lock", ".dvc/cache", ".dvc/tmp")
    told = baseline.check("dvc", *recorded_by)
    assert ("Nothing to be done" in told) == (recorded_by == ("repro",))
    assert "didn't change, skipping" in baseline.check("dvc", "repro")
    assert baseline.launches() == 2


def test_numbers_are_in_git_and_bulky_files_in_the_cache(baseline: Workspace) -> None:
    tracked = baseline.check("git", "ls-files").splitlines()
    made = ("results", "reports", "data/models", "data/workloads")
    recorded = [path for path in tracked if path.startswith(made)]
    ids = baseline.records()
    sessions = {record["session"] for record in ids.values()}
    tables = ("metrics.json", "load_points.csv", "quality.csv")
    kept = (f"{folder}/.keep" for folder in ("searches", "quality", "timelines", "tuning"))
    assert set(recorded) == {
        *(f"results/standin/records/{id}.json" for id in ids),
        *(f"results/standin/sessions/{id}.json" for id in sessions),
        *(f"results/standin/timelines/{id}-1.json" for id in sessions),
        *(f"results/standin/{name}" for name in (*tables, *kept)),
        "reports/summary.json",
        "reports/summary.md",
    }
    in_git = sum((baseline.root / path).stat().st_size for path in recorded)
    assert in_git < 250_000
    ignores = [path for path in tracked if path.endswith(".gitignore")]
    assert ignores == [".dvc/.gitignore", ".gitignore"]
    assert _status(baseline) == []


def test_an_experiment_measures_again_and_changes_the_numbers(one_at_a_time: Workspace) -> None:
    assert one_at_a_time.launches() == 4
    _assert_served_by(one_at_a_time, max_num_seqs=1)
    assert _metrics(one_at_a_time, "one") != _metrics(one_at_a_time, "main")
    assert one_at_a_time.metrics() == _metrics(one_at_a_time, "one")
    page = (one_at_a_time.root / "reports/summary.html").read_text()
    assert all(id in page for id in _planned(one_at_a_time))


def test_an_experiment_changes_one_line_of_the_parameters(one_at_a_time: Workspace) -> None:
    diff = one_at_a_time.check("git", "diff", "--unified=0", "params.yaml").splitlines()
    assert [line for line in diff if re.match(r"[-+](?![-+])", line)] == [
        "-max_num_seqs:",
        "+max_num_seqs: 1",
    ]


def test_the_difference_to_the_baseline_can_be_shown(one_at_a_time: Workspace) -> None:
    params = json.loads(one_at_a_time.check("dvc", "params", "diff", "--json"))
    assert params == {"params.yaml": {"max_num_seqs": {"old": None, "new": 1}}}
    metrics = one_at_a_time.check("dvc", "metrics", "diff", "--json")
    change = json.loads(metrics)["reports/summary.json"]
    assert set(change) <= {"plain.tok_s", "fp8-kv.x"}
    committed = one_at_a_time.check("git", "show", "HEAD:reports/summary.json")
    measured = (one_at_a_time.root / "reports/summary.json").read_text()
    old, new = (json.loads(text)["plain"]["tok_s"] for text in (committed, measured))
    assert new < old and change["plain.tok_s"] == {"old": old, "new": new, "diff": new - old}


def test_experiments_are_shown_with_what_decides_in_100_columns(one_at_a_time: Workspace) -> None:
    one_at_a_time.environment = {**one_at_a_time.environment, "COLUMNS": "100"}
    header, rows = ["Experiment", "Created", "plain.tok_s", "fp8-kv.x", "max_num_seqs"], 3
    # As wide as it wants to be: `less` shows the left of it.
    shown = [
        line[:100].split()
        for line in one_at_a_time.check("dvc", "exp", "show").splitlines()
        if not line.startswith(" \N{BOX DRAWINGS LIGHT HORIZONTAL}")
    ]
    assert shown[0][:5] == header
    assert len(shown) == 1 + rows and shown[-1][:3][-1] == "[one]" and "1" in shown[-1]


def test_plots_lay_revisions_over_each_other(one_at_a_time: Workspace) -> None:
    output = one_at_a_time.check("dvc", "plots", "diff", "main", "one")
    page = Path(output.strip().splitlines()[-1].removeprefix("file://")).read_text()
    for title in ("output throughput over load", "median TTFT over load", "median TPOT over load"):
        assert page.count(title) == 1
    assert '"rev": "main"' in page and '"rev": "one"' in page
    assert "DVC_METRIC" not in page
    assert "?? dvc_plots/" not in _status(one_at_a_time)


def test_setting_a_value_back_measures_nothing_and_gives_the_same(one_at_a_time: Workspace) -> None:
    one_at_a_time.check("dvc", "exp", "run", "-S", "max_num_seqs=null")
    assert one_at_a_time.launches() == 4
    assert one_at_a_time.metrics() == _metrics(one_at_a_time, "main")
    assert one_at_a_time.check("dvc", "params", "diff").strip() == ""
    assert one_at_a_time.check("dvc", "metrics", "diff").strip() == ""
    # The measurements of the experiment stay: new records in Git, and more raw data in dvc.lock.
    changed = [line for line in _status(one_at_a_time) if not line.startswith("??")]
    assert changed == [" M dvc.lock"]
    # What is in the workspace again is compared with the experiment by its name.
    told = one_at_a_time.check("servetune", "compare", "one")
    assert " against one (" in told and "| max_num_seqs | 1 | \N{EN DASH} |" in told


def test_a_reset_goes_back_to_the_baseline_and_the_experiment_can_be_applied_again(
    one_at_a_time: Workspace,
) -> None:
    one_at_a_time.check("git", "reset", "-q", "--hard")
    one_at_a_time.check("git", "clean", "-fdq")
    one_at_a_time.check("dvc", "checkout")
    assert "Nothing to be done" in one_at_a_time.measure()
    assert one_at_a_time.launches() == 2
    one_at_a_time.check("dvc", "exp", "apply", "one")
    assert one_at_a_time.metrics() == _metrics(one_at_a_time, "one")
    assert "Nothing to be done" in one_at_a_time.measure()
    assert one_at_a_time.launches() == 4


def test_an_experiment_becomes_a_branch_with_its_numbers(one_at_a_time: Workspace) -> None:
    one_at_a_time.check("dvc", "exp", "branch", "one", "one-at-a-time")
    changed = one_at_a_time.check("git", "diff", "--name-only", "main", "one-at-a-time")
    new = [id for id, record in one_at_a_time.records().items() if _max_num_seqs(record) == 1]
    assert len(new) == 4
    assert {f"results/standin/records/{id}.json" for id in new} < set(changed.splitlines())
    assert "params.yaml" in changed and "reports/summary.md" in changed


def test_variants_can_be_chosen(baseline: Workspace) -> None:
    baseline.check("dvc", "exp", "run", "-S", "variants=[plain]")
    assert baseline.launches() == 2
    assert set(baseline.metrics()) == {"plain"}
    assert len(baseline.records()) == 4


def test_experiments_elsewhere_measure_what_is_new_and_find_what_was_measured(
    baseline: Workspace,
) -> None:
    baseline.check("dvc", "exp", "run", "--temp", "-n", "elsewhere", "-S", "max_num_seqs=1")
    # The workspace keeps the baseline.
    assert baseline.launches() == 2
    assert _status(baseline) == []
    assert _metrics(baseline, "elsewhere") != _metrics(baseline, "main")
    back = baseline.check("dvc", "exp", "run", "--temp", "-n", "back", "-S", "seed=0", "--force")
    assert "measure_session" not in back
    assert _metrics(baseline, "back") == baseline.metrics()
    baseline.check("dvc", "exp", "apply", "elsewhere")
    _assert_served_by(baseline, max_num_seqs=1)
    assert baseline.launches() == 4


def test_a_sweep_is_queued_and_two_at_once_keep_their_servers_apart(baseline: Workspace) -> None:
    baseline.check("dvc", "exp", "run", "--queue", "-S", "max_num_seqs=1,2")
    assert baseline.check("dvc", "queue", "status").count("Queued") == 2
    # The workers go on in the background and would hold a pipe open for as long.
    baseline.check("sh", "-c", "dvc queue start -j 2 > /dev/null 2>&1")
    status = _wait_for_queue(baseline)
    assert status.count("Success") == 2, status
    assert _status(baseline) == []

    asked = set()
    for name in baseline.check("dvc", "exp", "list", "--name-only").split():
        baseline.check("dvc", "exp", "apply", name)
        params = yaml.safe_load((baseline.root / "params.yaml").read_text())
        _assert_served_by(baseline, max_num_seqs=params["max_num_seqs"])
        asked.add(params["max_num_seqs"])
    assert asked == {1, 2}


@pytest.fixture
def bucket() -> Iterator[str]:
    """The URL of an S3 server on this machine, with an empty bucket `runs`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    boto3.client("s3", endpoint_url=url, region_name="us-east-1", **SECRETS).create_bucket(
        Bucket="runs"
    )
    yield url
    server.stop()


SECRETS = {"aws_access_key_id": "someone", "aws_secret_access_key": "secret"}


def test_a_clone_that_pulls_from_a_bucket_has_nothing_to_do(
    baseline: Workspace, bucket: str, tmp_path: Path
) -> None:
    secrets = {name.upper(): value for name, value in SECRETS.items()}
    baseline.environment = {**baseline.environment, **secrets}
    baseline.check("dvc", "remote", "add", "--default", "storage", "s3://runs/servetune")
    baseline.check("dvc", "remote", "modify", "storage", "endpointurl", bucket)
    baseline.commit("A remote")
    baseline.check("dvc", "push")
    clone = _clone(baseline, tmp_path / "clone")
    clone.environment = baseline.environment
    clone.check("dvc", "pull")
    assert "Nothing to be done" in clone.dry_run()
    assert "didn't change, skipping" in clone.check("dvc", "repro")
    page = Path("reports/summary.html")
    assert (clone.root / page).read_bytes() == (baseline.root / page).read_bytes()
    # Raw data is all there, so that an experiment in the clone adds to it.
    assert clone.launches() == 2


def test_a_clone_without_a_remote_renders_the_same_report_from_git(
    baseline: Workspace, tmp_path: Path
) -> None:
    clone = _clone(baseline, tmp_path / "clone")
    assert not (clone.root / "reports/summary.html").exists()
    jobs = re.findall(r"^(\w+) +\d+$", clone.dry_run(), re.M)
    assert set(jobs) == {"collect_tables", "render_report", "total"}
    clone.measure()
    page = Path("reports/summary.html")
    assert (clone.root / page).read_bytes() == (baseline.root / page).read_bytes()
    assert clone.launches() == 0
    assert _status(clone) == []


def test_ci_can_tell_whether_the_recorded_results_are_those_of_the_code(
    baseline: Workspace, tmp_path: Path
) -> None:
    clone = _clone(baseline, tmp_path / "clone")
    told = clone.check("dvc", "repro", "--dry", "--allow-missing")
    assert "didn't change, skipping" in told
    clone.set_params(max_num_seqs=1)
    told = clone.run("dvc", "repro", "--dry", "--allow-missing").stdout
    assert "Running stage 'benchmark'" in told


def test_switching_studies_and_back_keeps_the_results_and_the_raw_data_of_both(
    baseline: Workspace,
) -> None:
    study = baseline.study
    study["workloads"]["random"]["load_points"] = [{"concurrency": 2, "requests": 4}]
    (baseline.root / "studies/other.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    baseline.commit("Two studies")
    before = baseline.records(), baseline.metrics()
    baseline.check("dvc", "exp", "run", "-S", "study=other")
    assert (baseline.records(), baseline.metrics()) == before
    other = json.loads((baseline.root / "results/other/metrics.json").read_text())
    assert set(other) == {"plain", "fp8-kv"}
    assert baseline.launches() == 2
    baseline.check("dvc", "exp", "run", "-S", "study=standin")
    assert baseline.launches() == 2
    assert (baseline.root / "results/raw/other").is_dir()
    baseline.commit("Another study")
    baseline.check("git", "checkout", "-q", "HEAD~1")
    baseline.check("dvc", "checkout")
    assert baseline.launches() == 2
    assert "Nothing to be done" in baseline.dry_run()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("max_num_seq=1", "ERROR: Invalid `--set-param` value: Could not override 'max_num_seq'."),
        (
            "+max_num_seq=1",
            "servetune: params.yaml: max_num_seq: neither a parameter of servetune nor an argument"
            " of vllm serve; did you mean max_num_seqs?",
        ),
        (
            "variants=[plan]",
            "servetune: params.yaml: variants: no variant plan in studies/standin.yaml;"
            " expected all, or a list of plain, fp8-kv; did you mean plain?",
        ),
    ],
)
def test_a_misspelt_override_is_one_line_and_nothing_starts(
    baseline: Workspace, override: str, told: str
) -> None:
    done = baseline.run("dvc", "exp", "run", "-S", override)
    assert done.returncode != 0
    assert done.stderr.splitlines().count(told) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert baseline.launches() == 2


def _copy(original: Workspace, root: Path) -> Workspace:
    copy_tree(original.root, root)
    return Workspace(root, Path(original.environment["SERVETUNE_CACHE"]))


def _clone(original: Workspace, root: Path) -> Workspace:
    original.check("git", "clone", "-q", ".", str(root))
    return Workspace(root, Path(original.environment["SERVETUNE_CACHE"]))


def _status(workspace: Workspace) -> list[str]:
    return workspace.check("git", "status", "--short").splitlines()


def _metrics(workspace: Workspace, revision: str) -> dict[str, Any]:
    """Read the metrics of a commit or an experiment, as `dvc metrics show` gives them."""
    if revision != "main":
        listed = workspace.check("git", "for-each-ref", "--format=%(refname)", "refs/exps")
        revision = next(ref for ref in listed.splitlines() if ref.endswith(f"/{revision}"))
    told = workspace.check("git", "show", f"{revision}:results/standin/metrics.json")
    metrics: dict[str, Any] = json.loads(told)
    return metrics


def _planned(workspace: Workspace) -> list[str]:
    return re.findall(r"session (\S+)", workspace.check("servetune", "plan"))


def _max_num_seqs(record: dict[str, Any]) -> int:
    command = record["server_command"]
    return int(command[command.index("--max-num-seqs") + 1])


def _assert_served_by(workspace: Workspace, max_num_seqs: int) -> None:
    """Each measurement of the plan was served by a server of its own session and arguments."""
    plan = _planned(workspace)
    records = [r for r in workspace.records().values() if r["session"] in plan]
    assert len(records) == 2 * len(plan)
    for record in records:
        assert record["status"] == "ok"
        assert _max_num_seqs(record) == max_num_seqs
        name = record["server_command"][record["server_command"].index("--served-model-name") + 1]
        assert name.startswith(record["session"])


def _wait_for_queue(workspace: Workspace) -> str:
    """Return the status of a queue that has ended.

    DVC writes in place what its status reads, and fails where that is half written.
    """
    failed = 0
    while True:
        done = workspace.run("dvc", "queue", "status")
        failed = failed + 1 if done.returncode else 0
        assert failed < 60, done.stdout + done.stderr
        if not failed and not re.search(r"\b(Queued|Running)\b", done.stdout):
            return done.stdout
        time.sleep(1)
