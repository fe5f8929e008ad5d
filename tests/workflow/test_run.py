"""What a user gets from `snakemake --cores 1 reports/summary.html`."""

import pandas as pd

from tests.workspace import Workspace


def test_one_command_leads_from_parameters_to_a_report(measured: Workspace) -> None:
    assert "The report: reports/summary.html" in measured.first_output
    page = (measured.root / "reports/summary.html").read_text()
    assert "Does the workflow do what it says?" in page
    table = pd.read_parquet(measured.root / "results/standin/load_points.parquet")
    assert list(table["variant"]) == ["plain", "plain", "fp8-kv", "fp8-kv"]
    assert list(table["load_point"]) == ["c1", "c8"] * 2
    assert set(table["status"]) == {"ok"}
    assert (table["completed_requests"] == table["requests"]).all()
    assert (table["output_throughput_tok_s"] > 0).all()
    assert measured.metrics()["plain"]["random"]["c8"]["ttft_p50_ms"] > 0
    assert measured.launches() == 2
    assert measured.servers() == []


def test_what_each_rule_prints_is_shown_and_kept_in_its_log(measured: Workspace) -> None:
    rules = "".join(path.read_text() for path in (measured.root / "workflow/rules").glob("*.smk"))
    assert rules.count("\n    log:") == rules.count("\n    shell:") == 8
    logs = sorted((measured.root / "logs").rglob("*.log"))
    folders = {log.parent.name for log in logs}
    assert folders == {"engine", "model", "session", "standin", "workload"}
    said = [line for log in logs for line in log.read_text().splitlines()]
    assert any("plain: random c8, load point 2 of 2" in line for line in said)
    for line in said:
        assert line in measured.first_output


def test_snakemakes_own_lines_stay_in_its_log(measured: Workspace) -> None:
    (log,) = (measured.root / ".snakemake/log").glob("*.log")
    for line in ("Building DAG of jobs", "Provided cores", "Reason: Missing output files"):
        assert line in log.read_text() and line not in measured.first_output
    assert "session 2 of 2: plain" in measured.first_output
    assert not list((measured.root / ".servetune/running").glob("*"))


def test_what_each_session_took_of_the_host_is_kept_beside_its_log(measured: Workspace) -> None:
    tables = [file.read_text() for file in (measured.root / "logs/standin/session").glob("*.tsv")]
    assert len(tables) == 2
    for table in tables:
        head, took = (line.split("\t") for line in table.splitlines())
        assert float(dict(zip(head, took, strict=True))["s"]) > 0


def test_snakemakes_own_report_holds_the_page(measured: Workspace) -> None:
    measured.check("snakemake", "--report", "provenance.html")
    assert "a page that stands alone" in (measured.root / "provenance.html").read_text()


def test_an_fp8_kv_cache_holds_twice_the_tokens(measured: Workspace) -> None:
    tokens = {r["variant"]: r["server"]["kv_cache_tokens"] for r in measured.records().values()}
    assert tokens["fp8-kv"] == 2 * tokens["plain"]


def test_a_record_keeps_the_resolved_configuration_and_not_the_servers_environment(
    measured: Workspace,
) -> None:
    for session in measured.sessions():
        info = session["launches"][0]["server_info"]
        assert info["vllm_config"] and info["system_env"]["python_version"]
        assert "vllm_env" not in info and "env_vars" not in info["system_env"]


def test_a_second_run_has_nothing_to_do(measured: Workspace) -> None:
    assert "Nothing to be done" in measured.dry_run()
    assert "Nothing to be done" in measured.measure()
    assert measured.launches() == 2


def test_it_has_nothing_to_do_without_snakemakes_memory_either(measured: Workspace) -> None:
    measured.check("rm", "-rf", ".snakemake", ".servetune")
    for path in measured.root.rglob("*"):
        if ".git" not in path.parts and path.is_file():
            path.touch()
    assert "Nothing to be done" in measured.dry_run()


def test_a_changed_parameter_measures_again_and_going_back_does_not(measured: Workspace) -> None:
    before = measured.metrics()
    measured.set_params(max_num_seqs=1)
    measured.check("rm", "-rf", ".snakemake")
    measured.collect()
    assert measured.launches() == 4
    assert measured.metrics() != before
    asked = [record["server_command"] for record in measured.records().values()]
    assert sum("--max-num-seqs 1 " in f"{' '.join(command)} " for command in asked) == 4
    measured.set_params(max_num_seqs=None)
    measured.collect()
    assert measured.launches() == 4
    assert measured.metrics() == before


def test_an_added_load_point_measures_only_what_is_new(measured: Workspace) -> None:
    before = measured.records()
    study = measured.study
    study["workloads"]["random"]["load_points"].append({"concurrency": 2, "requests": 4})
    measured.write_study(study)
    measured.collect()
    after = measured.records()
    assert len(after) == len(before) + 2
    assert {id: after[id] for id in before} == before
    assert measured.launches() == 4


def test_an_added_variant_measures_only_that_variant(measured: Workspace) -> None:
    study = measured.study
    study["variants"]["short"] = {"model": "standin", "server": {"max_model_len": 512}}
    measured.write_study(study)
    measured.collect()
    assert measured.launches() == 3


def test_an_edited_chart_rebuilds_the_report_and_no_session(measured: Workspace) -> None:
    with (measured.root / "src/servetune/report/answer/charts.py").open("a") as charts:
        charts.write("\n# edited\n")
    plan = measured.dry_run()
    assert "render_report" in plan
    assert "measure_session" not in plan
    assert "collect_tables" not in plan


def test_a_part_of_the_report_that_raises_is_marked_and_the_run_ends_with_3(
    measured: Workspace,
) -> None:
    source = measured.root / "src"
    with (source / "servetune/report/validity/section.py").open("a") as section:
        section.write('\n\ndef section(_):\n    raise ZeroDivisionError("planted")\n')
    measured.environment = {**measured.cold, "PYTHONPATH": str(source)}
    done = measured.run("snakemake", "--cores", "1", "reports/summary.html")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "but 1 part could not be made, marked there" in done.stdout + done.stderr
    page = (measured.root / "reports/summary.html").read_text()
    assert "Validity could not be made: ZeroDivisionError: planted" in page


def test_dvc_records_the_results_of_a_run_whose_report_lacks_a_part(measured: Workspace) -> None:
    source = measured.root / "src"
    with (source / "servetune/report/validity/section.py").open("a") as section:
        section.write('\n\ndef section(_):\n    raise ZeroDivisionError("planted")\n')
    measured.environment = {**measured.cold, "PYTHONPATH": str(source)}
    told = measured.check("dvc", "repro")
    assert "but 1 part could not be made, marked there" in told
    assert (measured.root / "dvc.lock").is_file()
    assert measured.launches() == 2


def test_tables_made_again_keep_the_telemetry_of_runs_whose_samples_are_not_here(
    workspace: Workspace,
) -> None:
    # A load of a second or more: the samples are a quarter of a second apart.
    study = workspace.study
    study["datasets"]["random"]["output_tokens"] = 500
    study["variants"].pop("fp8-kv")
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 8}]
    workspace.write_study(study)
    workspace.collect()
    path = workspace.root / "results/standin/timeline.parquet"
    kept = pd.read_parquet(path)
    assert set(kept["measurement"]) == set(workspace.records())
    workspace.check("rm", "-rf", "results/raw")
    with (workspace.root / "src/servetune/tables/write.py").open("a") as tables:
        tables.write("\n# edited\n")
    assert "collect_tables" in workspace.dry_run()
    workspace.collect()
    pd.testing.assert_frame_equal(pd.read_parquet(path), kept)


def test_a_deleted_record_is_measured_again_and_the_others_are_not(measured: Workspace) -> None:
    kept = measured.records()
    id = next(id for id in kept if id.startswith("plain-random-c8"))
    (measured.root / f"results/standin/records/{id}.json").unlink()
    (measured.root / f"results/standin/sessions/{kept[id]['session']}.json").unlink()
    measured.collect()
    again = measured.records()
    assert again[id]["started_at"] is not None
    assert {i: r for i, r in again.items() if i != id} == {i: r for i, r in kept.items() if i != id}


def test_a_table_that_would_not_be_the_plans_is_refused(measured: Workspace) -> None:
    id = next(iter(measured.records()))
    (measured.root / f"results/standin/records/{id}.json").unlink()
    done = measured.run("servetune", "tables")
    assert done.returncode == 2
    assert "no such record" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_is_one_line_and_nothing_starts(workspace: Workspace) -> None:
    study = workspace.study
    study["server"]["max_num_seq"] = 3
    workspace.write_study(study)
    # A host's engine is asked for its arguments once; until then a session refuses.
    done = workspace.run("snakemake", "--cores", "1", "reports/summary.html")
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "max_num_seq:" in line]
    assert lines and "did you mean max_num_seqs?" in lines[0]
    assert workspace.records() == {}
    again = workspace.run("snakemake", "--cores", "1", "reports/summary.html")
    told = [line for line in again.stderr.splitlines() if line.startswith("servetune:")]
    assert told == [
        "servetune: studies/standin.yaml: server.max_num_seq: vllm serve has no such argument;"
        " did you mean max_num_seqs?"
    ]
    assert workspace.launches() == 0


def test_measuring_on_other_hardware_than_declared_is_refused(workspace: Workspace) -> None:
    study = workspace.study
    study["hardware"] = "nvidia-h200"
    workspace.write_study(study)
    done = workspace.run("snakemake", "--cores", "1", "reports/summary.html")
    assert done.returncode != 0
    assert "the study declares nvidia-h200, but this machine has" in done.stderr
    assert workspace.records() == {}
