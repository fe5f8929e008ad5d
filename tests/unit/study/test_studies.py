"""The studies of this project plan what they say, and their server arguments exist."""

import re
from collections import Counter

import pytest

from servetune.errors import UserError
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.study.study import read_study
from servetune.tables.published import read_published
from tests.paths import GALLERY, ROOT
from tests.project import Project

FILES = [file for home in (ROOT, GALLERY) for file in sorted(home.glob("studies/*.yaml"))]
STUDIES = [path.stem for path in FILES]
SHOWING = [path.stem for path in FILES if "\npublished:" in path.read_text()]


def planned(project: Project, study: str, **params: object) -> Plan:
    return make_plan({**project.params, "study": study, **params}, project.root)


@pytest.mark.parametrize("study", STUDIES)
def test_a_misspelt_server_argument_of_a_study_is_found_before_anything_starts(
    project: Project, study: str
) -> None:
    planned(project, study)
    declared = project.study(study)
    # A study of several engines declares the arguments of each under its variants.
    of_vllm = declared if "server" in declared else declared["variants"][declared["baseline"]]
    of_vllm["server"]["max_num_seqz"] = 1
    project.write_study(declared, study)
    with pytest.raises(UserError, match="did you mean max_num_seqs"):
        planned(project, study)


def test_what_the_comments_of_a_new_folders_study_offer_is_taken(project: Project) -> None:
    text = (ROOT / "src/servetune/initial/templates/studies/mine.yaml").read_text()
    (hardware,) = re.findall(r"hardware: cpu # or ([\w-]+)", text)
    models = re.findall(r"# (\{source: .*\})", text)
    assert len(models) == 2
    for model in models:
        own = text.replace("{source: tiny}", model.replace("COMMIT", "a" * 40))
        own = own.replace("hardware: cpu", f"hardware: {hardware}")
        (project.root / "studies/mine.yaml").write_text(own)
        assert read_study("mine", project.root).hardware == hardware


def test_granite_latency_asks_for_the_users_the_throttle_and_the_nightly_batch(
    project: Project,
) -> None:
    plan = planned(project, "granite-latency")
    points = {s.variant: [m.load_point for m in s.measurements] for s in plan.sessions}
    users = ["c1", "c4", "c8", "c16"]
    assert points["start"] == [*users, "c4", "rinf"]
    assert points["throttled"] == ["c4"]
    assert points["batch"] == ["rinf"]
    for variant in ("len-4096", "w8a8", "2b", "moe", "eagle3"):
        assert points[variant] == users
    servers = {s.variant: s.server for s in plan.sessions}
    assert servers["start"] == {"max_num_seqs": 32, "max_model_len": 2048}
    assert servers["throttled"]["max_num_seqs"] == 1
    assert servers["len-4096"]["max_num_batched_tokens"] == 4096


EXPERIMENTS = [
    (None, None, None),
    (128, None, None),
    (128, "fp8", None),
    (256, "fp8", None),
    (256, "fp8", 16),
    (256, "fp8", 12),
    (512, "fp8", 12),
    (256, "fp8", 8),
]
"""max_num_seqs, kv_cache_dtype and suffix tokens of the eight experiments, as published."""


def test_phi4_throughput_is_the_eight_experiments_under_its_stress_test(project: Project) -> None:
    plan = planned(project, "phi4-throughput")
    for session, (seqs, dtype, drafted) in zip(plan.sessions, EXPERIMENTS, strict=True):
        assert session.server.get("max_num_seqs") == seqs
        assert session.server.get("kv_cache_dtype") == dtype
        assert session.server.get("calculate_kv_scales") == (True if dtype else None)
        assert (session.speculative or {}).get("num_speculative_tokens") == drafted
        assert (session.speculative or {}).get("method") == ("suffix" if drafted else None)
        (measurement,) = session.measurements
        assert measurement.load_point == "c250-r50"
        assert measurement.load.requests == 500


CONFIGURATIONS = {
    "phase0": (0.9, 8192, 1024),
    "phase1-baseline-rerun": (0.9, 8192, 1024),
    "phase1-mem095": (0.95, 8192, 1024),
    "phase1-batch16k": (0.9, 16384, 1024),
    "phase1-seqs128": (0.9, 8192, 128),
    "phase1-moderate": (0.95, 16384, 128),
    "phase1-aggressive": (0.95, 32768, 256),
}
"""gpu_memory_utilization, max_num_batched_tokens and max_num_seqs, as published."""


def test_llama70b_slo_is_phase_0_its_rerun_six_configurations_eagle3_and_four_replicas(
    project: Project,
) -> None:
    plan = planned(project, "llama70b-slo")
    servers = {s.variant: s.server for s in plan.sessions}
    for name, values in CONFIGURATIONS.items():
        server = servers[name]
        keys = ("gpu_memory_utilization", "max_num_batched_tokens", "max_num_seqs")
        assert tuple(server[key] for key in keys) == values, name
    others = {"phase2-llama-3.3", "phase2-eagle3", "phase3-round-robin", "phase3-kv-aware"}
    assert set(servers) - set(CONFIGURATIONS) == others
    fleets = [session for session in plan.sessions if session.gateway]
    assert [(s.gpus, s.gateway and s.gateway.policy) for s in fleets] == [
        (4, "round_robin"),
        (4, "kv_aware"),
    ]
    assert len({session.servers for session in fleets}) == 1
    sweep = [m for m in plan.sessions[0].measurements if m.workload == "sweep"]
    assert [m.load.rate_rps for m in sweep][0::6] == [0.25, 2, 5]
    assert {(m.load.settle_requests, m.load.cooldown_requests) for m in sweep} == {(20, 20)}
    assert "turns" in {m.workload for m in plan.sessions[0].measurements}


SETS = [
    (0.9, 30576, 256, 16, None, 20, 5, "auto", None, 0),
    (0.9, 200, 256, 16, None, 20, 5, "auto", None, 1),
    (0.95, 500, 256, 16, None, 20, 10, "auto", None, 1),
    (0.9, 500, 512, 16, None, 20, 0, "float16", None, 1),
    (0.98, 400, 512, 32, "fp8", 20, 1, "float16", None, 1),
    (0.9, 400, 256, 16, "fp8", 20, 0, "float16", None, 1),
    (0.9, 400, 256, 32, "fp8", 20, 0, "float16", None, 1),
    (0.9, 400, 512, 16, "fp8", 20, 0, "float16", None, 2),
    (0.9, 400, 256, 16, None, 20, 0, "auto", None, 1),
    (0.9, 400, 512, 32, "fp8", 20, 0, "float16", None, 2),
    (0.9, 400, 512, 32, "fp8", 20, 1, "float16", None, 3),
    (0.95, 400, 512, 32, "fp8", 20, 0, "float16", None, 2),
    (0.95, 400, 128, 32, "fp8", 20, 0, "float16", None, 2),
    (0.9, 400, 128, 32, "fp8", 30, 0, "float16", 1024, 3),
    (0.9, 400, 128, 32, "fp8", 30, 0, "float16", 4096, 2),
    (0.9, 400, 128, 32, "fp8", 10, 0, "float16", 2048, 2),
    (0.9, 512, 256, 32, "fp8", 20, 0, "float16", None, 2),
]
"""gpu_memory_utilization, max_model_len, max_num_seqs, block_size, quantization, max_logprobs,
cpu_offload_gb, dtype and max_num_batched_tokens, and how many throughputs are published."""


def test_rtx3080_parameters_is_seventeen_sets_launched_as_often_as_published(
    project: Project,
) -> None:
    plan = planned(project, "rtx3080-parameters", repeats=3)
    launches = Counter(session.variant for session in plan.sessions)
    servers = {session.variant: session.server for session in plan.sessions}
    keys = (
        *("gpu_memory_utilization", "max_model_len", "max_num_seqs", "block_size"),
        *("quantization", "max_logprobs", "cpu_offload_gb", "dtype", "max_num_batched_tokens"),
    )
    assert len(servers) == 17
    for number, (*values, runs) in enumerate(SETS, start=1):
        name = f"set-{number}"
        assert [servers[name].get(key) for key in keys] == values, name
        # The first one did not start, which one launch tells.
        assert launches[name] == max(1, runs)


@pytest.mark.parametrize("study", SHOWING)
def test_published_numbers_name_variants_of_the_study_that_shows_them(
    project: Project, study: str
) -> None:
    plan = planned(project, study)
    assert plan.published is not None
    published = read_published(plan.published, project.root)
    assert published.source.title and published.source.hardware
    assert set(published.numbers["variant"]) & set(plan.variants)
    if study == plan.published:
        assert set(published.numbers["variant"]) <= set(plan.variants)
