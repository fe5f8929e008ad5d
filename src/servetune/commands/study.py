"""A study of servers and loads that people have, as YAML that plans."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from servetune.commands.arguments import Served, served_of
from servetune.commands.bench import Bench, bench_from, bench_of
from servetune.commands.files import Source
from servetune.engines.environments import known_parser, vllm_version
from servetune.errors import UserError
from servetune.study.engines import Engine, EngineVersion
from servetune.study.hardware import CPU
from servetune.study.secrets import refuse_secrets

ACCELERATOR = "nvidia-h100-80gb-hbm3"
"""Where a command tells nothing of its hardware; a study must."""

KEY = "OPENAI_API_KEY"
"""The variable of an endpoint's key, as the command has it."""

BESIDE_A_LOAD = 10
"""Requests to an endpoint beside a load: warm-up, a small first one, some that are sent again."""

_LOCAL = re.compile(r"https?://(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?=[:/]|$)")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Written:
    """A study as YAML, and in a line each what it does not hold, or guesses."""

    name: str
    text: str
    notes: list[str]


def study_from(
    source: Source, name: str | None, hardware: str | None, version: str | None, root: Path
) -> Written:
    """Write a study of what was read; `hardware` and `version` replace what it tells.

    Raises:
        UserError: something in it that a study cannot hold, with what to write instead.
    """
    notes: list[str] = []
    loads = _benches(source, notes)
    benches = [bench for _, bench in loads]
    is_cpu = hardware == CPU or (hardware is None and _is_of_cpu(source))
    servers, names = _served(source, benches, is_cpu, version, root)
    if hardware is None and not is_cpu:
        notes.append(f"hardware: {ACCELERATOR} is a guess; give --hardware, or change it there")
    models: dict[str, Any] = {}
    variants: dict[str, Any] = {}
    for key, served in servers.items():
        variants[key] = _variant(served, models)
        engine = _engine(version or served.version, is_cpu, root)
        if isinstance(engine, EngineVersion):
            variants[key]["engine"] = engine.model_dump()
        notes += [f"{key}: {line}" if len(servers) > 1 else line for line in served.dropped]
    for key, bench in _endpoints(benches).items():
        endpoint: dict[str, Any] = {"url": _api(bench.url or ""), "model": bench.model}
        if bench.has_key:
            endpoint["key_env"] = KEY
            notes.append(f"{key}: its key is a secret; set {KEY} in your shell")
        if bench.headers:
            named = {name: re.sub(r"\W", "_", name).upper() for name in bench.headers}
            endpoint["headers_env"] = named
            notes.append(f"{key}: headers are secrets; set {', '.join(named.values())} there, too")
        requests = sum(point["requests"] for point in bench.workload["load_points"])
        endpoint["limits"] = {"requests": requests + BESIDE_A_LOAD}
        notes.append(
            f"{key}: limits.requests: what this load takes, once; without limits no load is sent"
        )
        variants[key] = {"endpoint": endpoint}
    if not variants:
        raise UserError(
            "from: no model; expected `vllm serve MODEL`, or --model in `vllm bench serve`"
        )
    datasets, workloads = _loads(loads, servers, names, variants)
    notes += [line for bench in benches for line in bench.dropped]
    if any("slo" in workload for workload in workloads.values()):
        notes.append("slo.goodput_ratio: 0.95 is a guess: the command asks for no share")
    if not benches:
        notes.append("workloads: 512 tokens in and 128 out, at 1, 8 and 32 clients, are a start")
    if not variants:
        raise UserError(f"from: no load of it can be sent: {'; '.join(notes)}")
    first = _baseline(variants, notes)
    content: dict[str, Any] = {
        "question": f"How fast is {_titles(servers, benches)} under this load?",
        "hardware": CPU if is_cpu else hardware or ACCELERATOR,
        "engine": "vllm-cpu" if is_cpu else "vllm-cuda",
        "baseline": first,
        "models": models,
        "variants": variants,
        "datasets": datasets,
        "workloads": workloads,
    }
    if not models:
        del content["models"], content["engine"]
    elif all("engine" in variant for variant in variants.values()):
        content["engine"] = variants[first]["engine"]
        for variant in variants.values():
            if variant["engine"] == content["engine"]:
                del variant["engine"]
    chosen = name or _slug(next(iter(models), first))
    refuse_secrets(content, Path("from"))
    return Written(chosen, _yaml(content, chosen), list(dict.fromkeys(notes)))


def _baseline(variants: dict[str, Any], notes: list[str]) -> str:
    """Choose the first variant, and say so where there are others."""
    first = next(iter(variants))
    if len(variants) > 1:
        notes.append(f"baseline: {first}, as it comes first; name another there if you like")
    return first


def _is_of_cpu(source: Source) -> bool:
    """Tell whether a command is of vLLM on a CPU."""
    return any(
        command.is_cpu
        or "VLLM_CPU_KVCACHE_SPACE" in command.environment
        or re.search(r"--device[= ]cpu( |$)", " ".join(command.arguments))
        for command in source.servers.values()
    )


def _benches(source: Source, notes: list[str]) -> list[tuple[str | None, Bench]]:
    """Read the loads; of several, one that this host cannot send is left out and named."""
    loads: list[tuple[str | None, Bench]] = []
    is_one = len(source.benches) == 1
    for server, each in source.benches:
        try:
            bench = bench_of(each) if isinstance(each, list) else bench_from(each)
        except UserError as error:
            if is_one:
                raise
            notes.append(f"{server or 'a load'}: left out: {str(error).removeprefix('from: ')}")
            continue
        path = bench.dataset.get("path")
        if path and not is_one and not Path(path).exists():
            notes.append(f"{server or 'a load'}: left out: {path}: no such file")
            continue
        loads.append((server, bench))
    return loads


def _served(
    source: Source,
    benches: list[Bench],
    is_cpu: bool,
    version: str | None,
    root: Path,
) -> tuple[dict[str, Served], dict[str, str]]:
    """Read the servers, those that are alike as one; and the name that each of the source's got."""
    servers: dict[str, Served] = {}
    names: dict[str, str] = {}
    for key, command in source.servers.items():
        asked = version or command.version
        served = served_of(command, known_parser(_engine(asked, is_cpu, root), root))
        alike = next((name for name, one in servers.items() if one == served), None)
        given = _slug(key if source.has_names else served.model)
        names[key] = alike or _free(given, servers)
        servers[names[key]] = served
    if not servers:
        local = [one for one in benches if one.model and not _is_elsewhere(one)]
        servers = {_slug(one.model or ""): Served(model=one.model or "") for one in local}
    return servers, names


def _engine(version: str | None, is_cpu: bool, root: Path) -> Engine:
    """Return the engine of a version: the pinned one, where none is asked for or it has that."""
    pinned = "vllm-cpu" if is_cpu else "vllm-cuda"
    if version is None or (is_cpu and version == vllm_version(pinned, root)):
        return pinned
    return EngineVersion(vllm=version)


def _is_elsewhere(bench: Bench) -> bool:
    return bench.url is not None and not _LOCAL.match(bench.url)


def _endpoints(benches: list[Bench]) -> dict[str, Bench]:
    return {
        _slug(one.model or "endpoint"): one for one in benches if _is_elsewhere(one) and one.model
    }


def _api(url: str) -> str:
    return url.rstrip("/") if url.rstrip("/").endswith("/v1") else f"{url.rstrip('/')}/v1"


def _variant(served: Served, models: dict[str, Any]) -> dict[str, Any]:
    variant: dict[str, Any] = {"model": _model(served.model, served.revision, models)}
    if served.server:
        variant["server"] = served.server
    if served.speculative is not None:
        speculative = {**served.speculative}
        if draft := speculative.get("model"):
            speculative["model"] = _model(str(draft), speculative.pop("revision", None), models)
        variant["speculative"] = speculative
    if served.adapters:
        variant["adapters"] = {
            _slug(name): _model(path, None, models) for name, path in served.adapters.items()
        }
    if served.environment:
        variant["environment"] = served.environment
    if served.environment_from:
        variant["environment_from"] = sorted(served.environment_from)
    return variant


def _model(word: str, revision: str | None, models: dict[str, Any]) -> str:
    """Add a model, once, and return its name."""
    is_repo = _REPO.fullmatch(word) and not Path(word).exists()
    if not is_repo and not word.startswith(("/", "./", "../", "~")) and not Path(word).exists():
        raise UserError(
            f"from: {word[:200]}: expected a repository of the hub, OWNER/NAME, or the path of a"
            " checkpoint"
        )
    source = (
        {"source": "huggingface", "repo": word} if is_repo else {"source": "path", "path": word}
    )
    if is_repo and revision:
        source["revision"] = revision
    for name, known in models.items():
        if known == source:
            return name
    name = _free(_slug(word), models)
    models[name] = source
    return name


def _loads(
    loads: list[tuple[str | None, Bench]],
    servers: dict[str, Served],
    names: dict[str, str],
    variants: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return datasets and workloads, and give variants those that are theirs alone."""
    if not loads:
        start = {"kind": "random", "requests": 256, **_tokens(servers)}
        loop = [{"concurrency": n, "requests": max(16, 4 * n)} for n in (1, 8, 32)]
        return {"load": start}, {"load": {"dataset": "load", "load_points": loop}}
    datasets: dict[str, Any] = {}
    workloads: dict[str, Any] = {}
    sent: dict[str, list[str]] = {name: [] for name in variants}
    for server, bench in loads:
        known = (name for name, one in datasets.items() if one == bench.dataset)
        dataset = next(known, None) or _free(_load_name(bench.dataset), datasets)
        datasets[dataset] = bench.dataset
        workload = {**bench.workload, "dataset": dataset}
        (point,) = workload.pop("load_points")
        alike = (
            name
            for name, other in workloads.items()
            if {**other, "load_points": None} == {**workload, "load_points": None}
        )
        name = next(alike, None) or _free(dataset, workloads)
        points = workloads.setdefault(name, {**workload, "load_points": []})["load_points"]
        if point not in points:
            points.append(point)
        for variant in [names[server]] if server in names else variants:
            sent[variant] += [name] if name not in sent[variant] else []
    for variant, own in sent.items():
        if own and len(own) < len(workloads):
            variants[variant]["workloads"] = own
        elif not own:
            del variants[variant]
    return datasets, workloads


def _load_name(dataset: dict[str, Any]) -> str:
    lengths = [dataset.get(f"{side}_tokens") for side in ("input", "output")]
    if all(isinstance(length, int) for length in lengths):
        return f"random-{lengths[0]}-{lengths[1]}"
    return str(dataset["kind"])


def _tokens(servers: dict[str, Served]) -> dict[str, int]:
    """Return lengths that the shortest context takes: 512 in and 128 out, or less."""
    lengths = [_number(served.server.get("max_model_len")) for served in servers.values()]
    longest = min([length for length in lengths if length and length > 0], default=math.inf)
    inside = min(512, max(1, int(min(longest, 1e6) * 0.6)))
    return {"input_tokens": inside, "output_tokens": min(128, max(1, inside // 4))}


def _number(value: Any) -> float | None:
    """Read a length as vLLM does: 4096, 32k or 1M."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", str(value))
    if not found:
        return None
    scale = {"": 1, "k": 1e3, "K": 1024, "m": 1e6, "M": 2**20, "g": 1e9, "G": 2**30}[found[2]]
    return float(found[1]) * scale


def _titles(servers: dict[str, Served], benches: list[Bench]) -> str:
    names = [served.model for served in servers.values()] or [one.model or "" for one in benches]
    return ", ".join(dict.fromkeys(names))[:800]


def _slug(word: str) -> str:
    """Return a name that may stand in a path, from the last part of a model's."""
    last = word.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9]+", "-", last).strip("-").lower()[:60].strip("-") or "server"


def _free(name: str, taken: dict[str, Any]) -> str:
    if name not in taken:
        return name
    return next(new for n in range(2, 10_000) if (new := f"{name}-{n}") not in taken)


class _Dumper(yaml.SafeDumper):
    """Writes small mappings and lists in a line, and no references."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(content: dict[str, Any], name: str) -> str:
    body = yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
    return (
        f"# yaml-language-server: $schema=study.schema.json\n# Written by `servetune from`.\n{body}"
    )
