"""Inputs that nobody means, by kind: each has to give one line that names its place.

`CASES` holds (kind, name, edit, place): the edit spoils a copy of the project's declarations, and
the place is what the line has to name. benchmarks/bad_inputs.py prints how long each takes.
"""

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.project import Project

STUDY = "studies/quickstart.yaml"
NAN, INF = float("nan"), float("inf")


class Case(NamedTuple):
    """A way to spoil a project, and the place that its line names."""

    kind: str
    name: str
    edit: Callable[[Project], object]
    place: str


def cases() -> list[Case]:
    """Return all cases, by kind."""
    parts = (
        *(_bytes, _yaml, _numbers, _booleans, _types, _names, _references, _arguments),
        *(_workloads, _environments, _checkpoints, _datasets, _published, _params),
    )
    return [case for part in parts for case in part()]


def set_at(study: dict[str, Any], path: str, value: object) -> None:
    """Set what stands at a key path, such as `workloads.text.load_points.0.requests`."""
    *parents, last = path.split(".")
    here: Any = study
    for key in parents:
        here = here[int(key)] if isinstance(here, list) else here.setdefault(key, {})
    here[int(last) if isinstance(here, list) else last] = value


def with_value(path: str, value: object, project: Project) -> None:
    """Write the study with another value at a key path."""
    study = project.study()
    set_at(study, path, value)
    project.write_study(study)


def _case(kind: str, path: str, value: object) -> Case:
    """A value at a key path of the study; what is in the way of a list is named by its parent."""
    shown = f"{path}={str(value)[:30]!r}"
    return Case(kind, shown, partial(with_value, path, value), path.rsplit(".", 1)[-1])


def _grid(kind: str, paths: Iterable[str], values: Iterable[object]) -> list[Case]:
    return [_case(kind, path, value) for path in paths for value in values]


def _write(path: str, content: bytes, project: Project) -> None:
    file = project.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


EXPLODING = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 10)}]\n" for i in range(9)
)
MERGING = "a: &a {k: 1}\n" + "".join(
    f"b{i}: &b{i} {{<<: [{', '.join([f'*b{i - 1}' if i else '*a'] * 10)}]}}\n" for i in range(12)
)


def _bytes() -> list[Case]:
    contents = {
        "latin-1": "question: Qu'est-ce que ça change ?".encode("latin-1"),
        "utf-16": "question: x".encode("utf-16"),
        "random": bytes(range(256)),
        "gzip": b"\x1f\x8b\x08\x00" + b"\x00" * 60,
        "a NUL": b"question: a\x00b\n",
        "a NUL escape": b'question: "a\\0b"\n',
        "an escape sequence": b"question: \x1b[31mred\n",
        "a lone surrogate": b'question: "\\ud800"\n',
        "empty": b"",
        "only a comment": b"# nothing\n",
        "a list": b"- a\n- b\n",
        "a text": b"hello\n",
        "JSON cut short": b'{"question": "wh',
        "a conflict": b"<<<<<<< HEAD\nquestion: a\n=======\nquestion: b\n>>>>>>> other\n",
        "too large": b"# " + b"x" * 200_000,
    }
    made = []
    for path in (STUDY, "params.yaml"):
        made += [
            Case("bytes", f"{path}: {name}", partial(_write, path, content), path)
            for name, content in contents.items()
        ]
        made += [
            Case("no file", f"{path}: {name}", partial(_instead, path, make), path)
            for name, make in NO_FILES.items()
        ]
    return made


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**12)


def _dangling(path: Path) -> None:
    path.symlink_to("no/such")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a device": _device,
    "a terabyte": _sparse,
    "a link to nothing": _dangling,
    "a link to itself": _loop,
}


def _instead(path: str, make: Callable[[Path], object], project: Project) -> None:
    """Put something that is no file of use where one is expected."""
    file = project.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    make(file)


def _yaml() -> list[Case]:
    texts = {
        "aliases explode": EXPLODING,
        "merges explode": MERGING,
        "an alias of itself": "a: &a [*a]",
        "an unknown alias": "a: *b",
        "lists 100,000 deep": "[" * 100_000,
        "mappings 3,000 deep": "{a: " * 3000,
        "items 2,000 deep": "- " * 2000 + "a",
        "indented 500 deep": "\n".join(" " * i + "a:" for i in range(500)),
        "30,000 keys": "\n".join(f"k{i}: 1" for i in range(12_000)),
        "5,000 digits": "repeats: " + "9" * 5000,
        "5,000 hex digits": "repeats: 0x" + "f" * 5000,
        "a long fraction": "repeats: 0." + "1" * 5000,
        "a date": "question: 2026-11-22",
        "an impossible date": "question: 2026-13-45",
        "a time": "question: 2026-11-22T10:00:00Z",
        "a Python object": "question: !!python/object/apply:os.system [echo]",
        "a binary": "question: !!binary aGVsbG8=",
        "a set": "question: !!set {a, b}",
        "an ordered map": "question: !!omap [a: b]",
        "a tag of one's own": "question: !mine b",
        "a cast": "repeats: !!int x",
        "a number for a key": "1: 2",
        "true for a key": "true: 2",
        "null for a key": "~: 2",
        "a list for a key": "? [a]\n: 1",
        "a mapping for a key": "? {a: 1}\n: 1",
        "a key twice": "question: a\nquestion: b",
        "a tab": "question:\n\t- b",
        "two documents": "--- {}\n--- {}",
        "another version": "%YAML 9.9\n---\nquestion: a",
        "a colon too many": "question: a: b",
        "an open list": "question: [",
        "an open quote": "question: 'a",
        "an at sign": "question: @a",
        "a merged text": "<<: 1",
        "the default key": "=: 1",
    }
    return [
        Case("YAML", f"{path}: {name}", partial(_write, path, text.encode()), path)
        for name, text in texts.items()
        for path in (STUDY, "params.yaml")
    ]


POSITIVE = (
    "repeats",
    "startup_timeout_s",
    "load_timeout_s",
    "stall_timeout_s",
    "price_usd_per_hour",
    "variants.bf16.repeats",
    "datasets.text.requests",
    "datasets.text.output_tokens",
    "datasets.text.input_words.max",
    "workloads.text.load_points.0.requests",
    "workloads.text.load_points.0.concurrency",
    "workloads.text.load_points.0.duration_s",
    "workloads.open.load_points.0.rate_rps",
    "workloads.text.max_output_tokens",
    "quality.documents",
    "quality.max_perplexity_ratio",
    "variants.eagle3.speculative.num_speculative_tokens",
    "ceilings.memory_bandwidth_gb_s",
)


def _numbers() -> list[Case]:
    return [
        *_grid("numbers", POSITIVE, (0, -1, NAN, -INF, 10**12, 10**90)),
        *_grid("numbers", ("equivalence",), (0, 1, -1, NAN, "-3%", "200%", "1.2.3%")),
        *_grid("numbers", ("models.tiny.seed",), (-1, 2**40, 0.5)),
        *_grid("numbers", ("workloads.text.sampling.temperature",), (-1, INF, 1e9)),
        *_grid("numbers", ("workloads.text.sampling.top_p",), (0, 2, NAN)),
        *_grid("numbers", ("validity.failed_ratio", "validity.other_cpu_ratio"), (-1, 2, NAN)),
        *_grid("numbers", ("validity.send_delay_p99_ms",), (0, -1, INF, NAN)),
        Case("numbers", "more load points than a month", _many_points, "load points"),
    ]


def _many_points(project: Project) -> None:
    with_value("repeats", 1000, project)


def _booleans() -> list[Case]:
    paths = (*POSITIVE, "models.tiny.seed", "equivalence", "validity.failed_ratio")
    return _grid("booleans", paths, (True, False))


def _types() -> list[Case]:
    return [
        *_grid("types", ("repeats", "startup_timeout_s"), ("many", [1], {"a": 1}, "")),
        *_grid("types", ("question", "hardware", "baseline"), (None, 5, [1], {"a": 1}, True)),
        *_grid("types", ("models", "variants", "datasets", "workloads"), (None, 5, [], "x", {})),
        *_grid("types", ("engine",), (None, 5, [], "vllm", {"python": 5}, {"vllm": "latest"})),
        *_grid("types", ("server", "environment"), (5, "x", ["a"])),
        *_grid("types", ("workloads.text.load_points",), (5, "x", [1], [[]], [None])),
    ]


def _names() -> list[Case]:
    wrong = ("", ".", "..", "../up", "a/b", "a b", "-a", "a" * 300, "ä", "a\nb", "$(id)", "a;b")
    made = []
    for name in wrong:
        for section, template in (("variants", "bf16"), ("workloads", "text")):
            made.append(
                Case(
                    "names",
                    f"{section}: {name[:10]!r}",
                    partial(_rename, section, template, name),
                    section,
                )
            )
    return [*made, *_grid("names", ("hardware", "published"), wrong)]


def _rename(section: str, old: str, new: str, project: Project) -> None:
    study = project.study()
    study[section][new] = study[section].pop(old)
    project.write_study(study)


def _references() -> list[Case]:
    paths = (
        *("baseline", "variants.bf16.model", "models.tiny-w8a8.base", "models.tiny-eagle3.target"),
        *("variants.eagle3.speculative.model", "workloads.text.dataset", "quality.corpus"),
    )
    return [
        *_grid("references", paths, ("nobody",)),
        _case("references", "models.tiny-w8a8.base", "tiny-w8a8")._replace(place="tiny-w8a8"),
        _case("references", "variants.bf16.workloads", ["nothing"]),
        _case("references", "variants.bf16.workloads", []),
        *_grid("references", ("models.tiny.source",), ("tinny", None, 5)),
        *_grid("references", ("workloads.text.generator",), ("ab", None, 5)),
    ]


def _arguments() -> list[Case]:
    owned = (
        *("host", "hos", "ho", "port", "por", "api_key", "api-key", "uds", "model", "model_tag"),
        *("served_model_name", "served-model", "--served-model-name", "--host", "-h", "--port=1"),
        *("speculative_config", "speculative_config.model", "spec_model", "config", "conf"),
        *("hf_token", "ssl_keyfile", "root_path", "headless", "__use_yte__", "O3", "-tp", ""),
        "disable_log_stats",
    )
    values: list[tuple[str, Any]] = [
        *_each("quantization", ["fp8", "--host", "0.0.0.0"], "--host=::", "-O3"),
        *_each("tokenizer", "--port", ["--port", "1"], "-x"),
        *_each("dtype", "bfloat61", 5, True, ["bfloat16", "--host"]),
        *_each("max_num_seqs", 0, -1, 1.5, 1e12, NAN, INF, "many", True, {}),
        *_each("max_model_len", -5, 1.5, NAN, 1e12, "many", True, "-1"),
        *_each("gpu_memory_utilization", 0, -1, 2, NAN, INF, "half", True),
        *_each("tensor_parallel_size", 0, -1, 10**9, True),
        *_each("seed", -1, 2**40),
        *_each("enforce_eager", "yes please", 1, [True], {}),
        *_each("compilation_config", {"a": NAN}, "--host"),
        *_each("middleware", [None], [["a"]], ["a", "--host"]),
    ]
    return [
        *(_case("arguments", f"server.{name}", 1) for name in owned if "." not in name),
        *(_case("arguments", f"server.{name}", value) for name, value in values),
        *(_case("arguments", f"variants.w8a8.server.{name}", value) for name, value in values[:8]),
        *_grid("arguments", ("variants.eagle3.speculative.acceptance",), (NAN, {"a": INF}, [-INF])),
    ]


def _each(name: str, *values: Any) -> list[tuple[str, Any]]:
    return [(name, value) for value in values]


def _workloads() -> list[Case]:
    point = "workloads.text.load_points.0"
    burst = {"rate_rps": 5, "start_s": 0, "duration_s": 1}
    search = {"slo": {"chat": {"ttft_p99_ms": 1000}}, "lowest": 1, "highest": 10}
    made = [
        (point, {"requests": 3}),
        (point, {"concurrency": 3}),
        (point, {"concurrency": 3, "requests": 3, "rate": 2}),
        (point, {"rate_rps": INF, "duration_s": 5}),
        ("workloads.text.burst", burst),
        ("workloads.text.arrivals", "trace"),
        ("workloads.text.arrivals", "gamma"),
        ("workloads.text.burstiness", 0.5),
        ("workloads.text.capacity", search),
        ("workloads.text.endpoint", "responses"),
    ]
    slo: list[object] = [
        *({}, {"a": {}}, {"a": "nobodys"}, {"a": {"ttft_p99_ms": -1}}, {"a": {"ttft_ms": 1}}),
        *({"a": {"ttft_p99_ms": NAN}}, {"a": {"ttft_p10_ms": 5}}, {"a": {"ttft_p99_ms": True}}),
        {"a": {"goodput_ratio": 0.9}},
    ]
    searches = [{**search, "slo": each} for each in slo]
    searches += [{**search, "lowest": value} for value in (0, -1, 20, NAN, INF)]
    searches += [{**search, "highest": value} for value in (1e12, INF, True)]
    searches += [{**search, "probes": value} for value in (1, 10**6)]
    searches.append({**search, "over": "concurrency", "lowest": 0.5})
    return [
        *(_case("workloads", path, value)._replace(place="workloads.text") for path, value in made),
        *(
            Case("searches", str(given)[:70], partial(_search, given), "workloads.text")
            for given in searches
        ),
    ]


def _search(given: dict[str, object], project: Project) -> None:
    study = project.study()
    del study["workloads"]["text"]["load_points"]
    study["workloads"]["text"]["capacity"] = given
    project.write_study(study)


def _environments() -> list[Case]:
    names = ("", "A B", "A=B", "1A", "A-B", "a" * 300)
    return [
        *(_case("environment", f"environment.{name}", "1") for name in names),
        *_grid("environment", ("environment.A",), (0.5, None, True, [], "x" * 40_000)),
    ]


CONFIG = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}


def _checkpoints() -> list[Case]:
    contents = {
        "garbage": b"\x00\xff garbage",
        "cut": b'{"hidden_size": 8',
        "empty": b"",
        "a list": b"[1, 2]",
        "a text": b'"config"',
        "no text": "é".encode("latin-1"),
        "deep": b'{"a":' * 100_000,
        "layers that are text": json.dumps({**CONFIG, "num_hidden_layers": "many"}).encode(),
        "layers below zero": json.dumps({**CONFIG, "num_hidden_layers": -1}).encode(),
        "layers that are true": json.dumps({**CONFIG, "num_hidden_layers": True}).encode(),
        "endless layers": json.dumps({**CONFIG, "num_hidden_layers": 10**30}).encode(),
        "5,000 digits": b'{"hidden_size": ' + b"9" * 5000 + b"}",
    }
    folder = {"source": "path", "path": "own"}
    shape = {"source": "shape", "config": "own/config.json"}
    made = []
    for source in (folder, shape):
        kind = f"models, source: {source['source']}"
        for name, content in contents.items():
            edit = partial(_with_file, "models.tiny", source, "own/config.json", content)
            made.append(Case(kind, name, edit, "models.tiny"))
        for name, make in NO_FILES.items():
            edit_file = partial(_with_no_file, "models.tiny", source, "own/config.json", make)
            made.append(Case(kind, name, edit_file, "models.tiny"))
    broken = {
        "model.safetensors": LFS_POINTER,
        "tokenizer.json": LFS_POINTER,
        "model.safetensors.index.json": json.dumps(
            {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
        ).encode(),
        "pytorch_model.bin.index.json": b'{"weight_map": {"a": "no/such.bin"}}',
        "other.safetensors.index.json": b"[]",
    }
    for name, content in broken.items():
        made.append(
            Case("half a checkpoint", name, partial(_with_broken, folder, name, content), name)
        )
    return [
        *made,
        Case("models", "a shape without layers",
             partial(_with_file, "models.tiny", shape, "own/config.json", b"{}"), "models.tiny"),
        Case("models", "a folder without config.json",
             partial(_with_file, "models.tiny", folder, "own/other", b""), "models.tiny"),
        Case("models", "a file for a folder",
             partial(_with_file, "models.tiny", folder, "own", b""), "models.tiny"),
        *_grid("models", ("models.tiny",), ({"source": "path", "path": "no/such"},)),
        *_grid("models", ("models.tiny",), ({"source": "path", "path": "a" * 5000},)),
        *_grid("models", ("models.tiny",), ({"source": "huggingface", "repo": "-x/y"},)),
    ]  # fmt: skip


LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"


def _with_broken(source: dict[str, str], name: str, content: bytes, project: Project) -> None:
    """A checkpoint whose config is there, and another file is not what it should be."""
    _write("own/config.json", json.dumps(CONFIG).encode(), project)
    _with_file("models.tiny", source, f"own/{name}", content, project)


def _with_file(key: str, value: object, path: str, content: bytes, project: Project) -> None:
    _write(path, content, project)
    with_value(key, value, project)


def _with_no_file(
    key: str, value: object, path: str, make: Callable[[Path], object], project: Project
) -> None:
    _instead(path, make, project)
    with_value(key, value, project)


GOOD = b'{"prompt": "hello there", "output_tokens": 4}\n'


def _datasets() -> list[Case]:
    lines = {
        "garbage": b"garbage\n",
        "cut": b'{"prompt": "hel',
        "no text": b'{"prompt": "\xff", "output_tokens": 4}\n',
        "no length": b'{"prompt": "a"}\n',
        "an empty prompt": b'{"prompt": "", "output_tokens": 4}\n',
        "no tokens": b'{"prompt": "a", "output_tokens": 0}\n',
        "true tokens": b'{"prompt": "a", "output_tokens": true}\n',
        "text for tokens": b'{"prompt": "a", "output_tokens": "4"}\n',
        "endless tokens": b'{"prompt": "a", "output_tokens": 1000000000000}\n',
        "negative ids": b'{"prompt": [-1], "output_tokens": 4}\n',
        "no turns": b'{"turns": []}\n',
        "deep": b"[" * 100_000 + b"\n",
        "5,000 digits": b'{"prompt": "a", "output_tokens": ' + b"9" * 5000 + b"}\n",
        "a list": b"[1]\n",
    }
    traces = {
        "no length": b'{"timestamp": 1, "hash_ids": []}\n',
        "endless": b'{"timestamp": 9, "input_length": 1000000000000, "output_length": 1,'
        b' "hash_ids": []}\n',
        "time goes back": b'{"timestamp": 0, "input_length": 1, "output_length": 1,'
        b' "hash_ids": []}\n',
        "no time": b'{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": []}\n',
    }
    first = b'{"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n'
    talks = {
        "garbage": b"garbage",
        "cut": b'[{"conversations": [',
        "empty": b"",
        "no answers": b"[]",
        "other entries": b'[1, {"a": 2}]',
        "deep": b"[" * 100_000,
    }
    own = {"kind": "file", "path": "own"}
    trace = {"kind": "mooncake", "path": "own"}
    talk = {"kind": "sharegpt", "path": "own"}
    texts = {"kind": "text-files", "path": "own", "requests": 4, "input_words": 9,
             "output_tokens": 4}  # fmt: skip
    given: list[tuple[dict[str, Any], str, bytes]] = [
        *((own, name, GOOD + line) for name, line in lines.items()),
        (own, "empty", b""),
        *((trace, name, first + line) for name, line in traces.items()),
        ({**trace, "requests": 9}, "too few", first),
        *((talk, name, content) for name, content in talks.items()),
        (texts, "too few words", b"one two"),
        (texts, "no text", b"\xff\xfe"),
        ({**own, "path": "a" * 5000}, "a long path", b""),
        ({**own, "path": "no/such"}, "no such file", b""),
    ]
    made = [
        Case("datasets", f"{spec['kind']}: {name}",
             partial(_with_file, "datasets.text", spec, "own", content), "datasets.text")
        for spec, name, content in given
    ]  # fmt: skip
    for spec in (own, trace, talk, texts):
        for name, make in NO_FILES.items():
            edit = partial(_with_no_file, "datasets.text", spec, "own", make)
            made.append(Case("datasets", f"{spec['kind']}: {name}", edit, "datasets.text"))
    return made


def _published() -> list[Case]:
    head = b"variant,workload,load_point,metric,run,value\n"
    row = b"bf16,text,c8,tpot_p50_ms,1,"
    contents = {
        "empty": b"",
        "other columns": b"a,b\n",
        "no number": head + row + b"fast\n",
        "not finite": head + row + b"nan\n",
        "too few values": head + b"bf16,text\n",
        "too many values": head + row + b"1,2\n",
        "no text": head + b"\xff\n",
        "an open quote": head + b'"bf16,text\n',
    }
    path = "data/published/own.csv"
    made = [
        Case("published", name, partial(_with_file, "published", "own", path, text), "published")
        for name, text in contents.items()
    ]
    for name, make in NO_FILES.items():
        edit = partial(_with_no_file, "published", "own", path, make)
        made.append(Case("published", name, edit, "published"))
    no_source = partial(_with_file, "published", "own", path, head)
    return [*made, Case("published", "no source", no_source, "published")]


def _params() -> list[Case]:
    texts = {
        "study: nobody": "study",
        "study: ../params": "study",
        "study: [quickstart]": "study",
        "study:": "study",
        f"study: {'a' * 300}": "study",
        "study: quickstart\nvariants: []": "variants",
        "study: quickstart\nvariants: [nobody]": "variants",
        "study: quickstart\nvariants: some": "variants",
        "study: quickstart\nrepeats: 0": "repeats",
        "study: quickstart\nrepeats: true": "repeats",
        "study: quickstart\nrepeats: 1000000000": "repeats",
        "study: quickstart\nseed: -1": "seed",
        "study: quickstart\nseed: 0.5": "seed",
        "study: quickstart\nseed: 99999999999": "seed",
        "study: quickstart\n__use_yte__: true": "__use_yte__",
        "study: quickstart\nhost: 0.0.0.0": "host",
        "study: quickstart\nmax_num_seqz: 1": "max_num_seqz",
        "study: quickstart\nmax_num_seqs: -1": "max_num_seqs",
        "study: quickstart\nmax_model_len: .nan": "max_model_len",
        "study: quickstart\nquantization: [fp8, --host, 0.0.0.0]": "quantization",
        "variants: all": "study",
    }
    return [
        Case("params", text[:60], partial(_write, "params.yaml", text.encode()), place)
        for text, place in texts.items()
    ]


CASES = cases()
