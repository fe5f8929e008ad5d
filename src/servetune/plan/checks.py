"""Checks of a study that need more than its own text: an engine's parser, a generator, a file."""

from pathlib import Path

from servetune.engines.arguments import Parser, check_arguments
from servetune.engines.environments import known_parser, pinned_version, vllm_version
from servetune.engines.spelling import other_spelling
from servetune.errors import UserError, nearest
from servetune.plan.contents import Content, content_of
from servetune.plan.requests import rows_of, trace_of
from servetune.plan.sessions import served_with
from servetune.study.classes import CHAT_ALONE
from servetune.study.contradictions import contradiction, told
from servetune.study.datasets import AgentsDataset, Dataset, FileDataset, ShareGptDataset
from servetune.study.engines import (
    NEEDED_BY,
    Engine,
    EnginePython,
    EngineVersion,
    family_of,
    program_of,
)
from servetune.study.families import VLLM, EngineFamily
from servetune.study.grammars import check_of
from servetune.study.models import Gguf, ModelSource
from servetune.study.rows import unanswered
from servetune.study.study import Params, Study, Variant
from servetune.study.workloads import LoadPoint, Workload

MOST_LOAD_POINTS = 15_000
"""Of a study, over all launches: a minute each is ten days."""


def engine_of(study: Study, variant: Variant) -> Engine | None:
    """Return the engine that serves a variant; None of an endpoint, and of results."""
    return variant.engine or study.engine if variant.is_served else None


def check_server_arguments(params: Params, study: Study, names: list[str], root: Path) -> None:
    """Hold every server argument against the parser of the engine that takes it.

    Raises:
        UserError: the first that it does not know, or whose value it refuses; or several that
            it takes alone and not together.
    """
    file = f"studies/{params.study}.yaml"
    engines = {
        name: engine
        for name in names
        if (engine := engine_of(study, study.variants[name])) is not None
    }
    parsers = {name: known_parser(engine, root) for name, engine in engines.items()}
    # The project's params.yaml names arguments of vLLM, left empty, whatever serves a study.
    has_others = not engines or any(family_of(engine) != VLLM for engine in engines.values())
    vllm = [known_parser("vllm-cpu", root)] if has_others else []
    _check_params(params, [*parsers.values(), *vllm])
    for name, parser in parsers.items():
        variant, program = study.variants[name], program_of(engines[name])
        check_arguments(params.overrides, parser, "params.yaml: ", program)
        check_arguments(study.server, parser, f"{file}: server.", program)
        check_arguments(variant.server, parser, f"{file}: variants.{name}.server.", program)
        for role, pool in variant.roles.pools.items() if variant.roles else ():
            where = f"{file}: variants.{name}.roles.{role}.server."
            check_arguments(pool.server, parser, where, program)
        served = served_with(study, variant, params)
        if rule := contradiction(served):
            raise UserError(f"{file}: variants.{name}: {told(rule, served)}")


def _check_params(params: Params, parsers: list[Parser | None]) -> None:
    """Check that some engine takes each further key of params.yaml, where all tell theirs."""
    known = {name: argument for parser in parsers for name, argument in (parser or {}).items()}
    for key in [] if None in parsers else params.model_extra or {}:
        if key not in known:
            hint = nearest(key, {*Params.model_fields}) or other_spelling(
                key, params.overrides.get(key), known
            )
            raise UserError(
                f"params.yaml: {key}: neither a parameter of servetune nor an argument of"
                f" vllm serve{hint}"
            )


def check_served(name: str, study: Study, variants: list[str], root: Path) -> None:
    """Check that the engine of each variant serves its kind of checkpoint, and what is beside it.

    What a Python of this host has beside vLLM is not known here: its server says what it lacks.

    Raises:
        UserError: the first that does not.
    """
    for key in variants:
        variant, where = study.variants[key], f"studies/{name}.yaml: variants.{key}"
        engine = engine_of(study, variant)
        if engine is None or variant.model is None:
            continue
        source, family = study.models[variant.model], family_of(engine)
        if source.layout not in (None, family.layout):
            raise UserError(
                f"{where}.model: {variant.model} is source: {source.source}, which {family.title}"
                f" does not serve; {_served_instead(source, variant.model, family)}"
            )
        for extra in ("speculative", "adapters"):
            if getattr(variant, extra) and extra not in family.extras:
                raise UserError(
                    f"{where}.{extra}: {family.title} takes none from a study; leave it out"
                )
        method = variant.speculative and variant.speculative.method
        if method and (instead := _drafts_instead(method, engine, root)):
            raise UserError(f"{where}.speculative: {instead}")


def _drafts_instead(method: str, engine: Engine, root: Path) -> str | None:
    """Say what to write where an engine lacks the package that a method of drafting needs."""
    needed = NEEDED_BY.get(method)
    if needed is None or isinstance(engine, EnginePython):
        return None
    name = needed.partition("==")[0]
    if isinstance(engine, EngineVersion):
        has, beside = name in engine.versions, engine.packages
    else:
        has, beside = pinned_version([name], engine, root) is not None, ()
    if has:
        return None
    version, packages = vllm_version(engine, root), ", ".join([*beside, needed])
    return (
        f"{method} needs {name} beside vLLM; write engine:"
        f" {{vllm: {version}, packages: [{packages}]}}"
    )


def _served_instead(source: ModelSource, model: str, family: EngineFamily) -> str:
    if isinstance(source, Gguf):
        return f"add engine: llama-cpp, or use its base, {source.base}"
    if family.layout == Gguf.layout:
        return f"add a model such as {{source: gguf, base: {model}}}"
    return f"expected a checkpoint of layout {family.layout}"


def check_tuned(params: Params, study: Study, root: Path) -> None:
    """Hold the space of a tuning against its engine's parser, and params.yaml against the space.

    Raises:
        UserError: a setting or a value that the engine refuses, or that params.yaml fixes.
    """
    tune, file = study.tune, f"studies/{params.study}.yaml"
    if tune is None:
        return
    if params.variants != "all":
        raise UserError(
            f"params.yaml: variants: {file} tunes, and chooses its variants itself; write all"
        )
    if (engine := engine_of(study, study.variants[tune.base])) is None:
        return
    parser, program = known_parser(engine, root), program_of(engine)
    for name in tune.space:
        if name in params.overrides:
            raise UserError(
                f"params.yaml: {name}: {file} tries values of it (tune.space); write null"
            )
        if name not in ("model", "speculative") and not name.startswith("environment."):
            for value in tune.values_of(name):
                if value is not None:
                    check_arguments({name: value}, parser, f"{file}: tune.space.", program)


def check_extent(params: Params, study: Study, names: list[str]) -> None:
    """Check that a study can be planned, and measured, in a time that somebody waits.

    Raises:
        UserError: it asks for more than `MOST_LOAD_POINTS`.
    """
    points = 0
    for name in names:
        variant = study.variants[name]
        repeats = params.repeats or study.most_repeats
        sent = variant.workloads or study.workloads
        count = sum(len(study.workloads[key].load_points) or 1 for key in sent)
        points += count * min(repeats, variant.launches or repeats)
    if points > MOST_LOAD_POINTS:
        raise UserError(
            f"studies/{params.study}.yaml: variants: {points:,} load points with all repeats;"
            f" expected at most {MOST_LOAD_POINTS:,}"
        )


def check_workloads(name: str, study: Study, root: Path) -> None:
    """Check that each workload can be sent from its dataset.

    Raises:
        UserError: the first that cannot, and what can.
    """
    for key, workload in study.workloads.items():
        dataset = study.datasets[workload.dataset]
        where = f"studies/{name}.yaml: workloads.{key}"
        endpoint = endpoint_of(workload, dataset, root)
        is_chat = endpoint == "chat"
        content = content_of(dataset, root)
        if workload.arrivals == "trace" and not content.has_times:
            raise UserError(
                f"{where}.arrivals: {workload.dataset} has no arrival times; use a mooncake or"
                " burstgpt dataset, or a file with arrival_s on every line"
            )
        if is_chat and content.has_token_ids:
            raise UserError(
                f"{where}.endpoint: chat takes text, but a {dataset.kind} dataset holds token"
                " ids; use completions"
            )
        if content.needs_chat and not is_chat:
            raise UserError(f"{where}.endpoint: conversations need chat; leave endpoint out")
        _check_turns(where, workload, dataset, content, root)
        if workload.classes:
            # A rerank has documents of its own.
            _check_classes(where, workload, is_chat or endpoint == "rerank", content)
        if workload.versus:
            _check_versus(where, workload, study.workloads[workload.versus])
        points = {f"load_points.{i}": point for i, point in enumerate(workload.load_points)}
        if search := workload.capacity:
            if search.over == "rate" and content.has_turns:
                # Later turns follow by themselves: a rate of beginnings is not that of requests.
                raise UserError(
                    f"{where}.capacity: {workload.dataset} has conversations, whose later turns"
                    " follow at their own pace; search over: concurrency, or give load_points with"
                    " rates and an slo"
                )
            load = {"rate_rps" if search.over == "rate" else "concurrency": 1}
            points = {"capacity": LoadPoint(**load, requests=1)}
        for at, point in points.items():
            if refusal := _beyond_trace(workload, point, dataset, root):
                raise UserError(f"{where}.{at}: {refusal}")


def _check_turns(
    where: str, workload: Workload, dataset: Dataset, content: Content, root: Path
) -> None:
    """Check that a dataset has the delays and answers that a workload takes from it.

    Raises:
        UserError: it does not.
    """
    is_recorded = workload.history == "recorded"
    for key, is_set in (("turn_delay_s", workload.turn_delay_s != 0), ("history", is_recorded)):
        if is_set and not content.has_turns:
            raise UserError(f"{where}.{key}: {workload.dataset} has no conversations; leave it out")
    if workload.turn_delay_s == "trace" and not content.has_delays:
        raise UserError(
            f"{where}.turn_delay_s: {workload.dataset} has no delays; use seconds, or a file with"
            " delay_s in its turns"
        )
    if is_recorded and (missing := _unanswered(dataset, root)):
        raise UserError(
            f"{where}.history: {workload.dataset}: {missing} has no answer that later turns can"
            " repeat; add answer, or use history: answers"
        )


def _unanswered(dataset: Dataset, root: Path) -> str | None:
    if isinstance(dataset, FileDataset | AgentsDataset):
        return unanswered(rows_of(dataset, root))
    is_sharegpt = isinstance(dataset, ShareGptDataset) and dataset.output_tokens is None
    return None if is_sharegpt or dataset.kind == "mooncake" else "row 1, turn 1"


def _check_classes(where: str, workload: Workload, is_chat: bool, content: Content) -> None:
    """Check that each class can be sent, its answers be judged, and that rows name no other.

    Raises:
        UserError: the first that cannot.
    """
    for name, kind in workload.classes.items():
        if kind.images and (not is_chat or workload.endpoint == "rerank"):
            raise UserError(
                f"{where}.classes.{name}.images: are of chats; add endpoint: chat to the workload"
            )
        at = f"{where}.classes.{name}.extra_body"
        if not is_chat and (field := next(filter(kind.extra_body.get, CHAT_ALONE), None)):
            raise UserError(f"{at}: {field} is of chats; add endpoint: chat to the workload")
        try:
            check_of(kind.extra_body)
        except ValueError as error:
            raise UserError(f"{at}: {error}") from None
    if unknown := sorted(content.classes - {*workload.classes}):
        raise UserError(
            f"{where}.classes: {workload.dataset} has requests of the class {unknown[0]}; expected"
            f" one of {', '.join(workload.classes)}{nearest(unknown[0], workload.classes)}"
        )


def _check_versus(where: str, workload: Workload, other: Workload) -> None:
    """Check that each load point has one to be compared with; raises UserError if not."""
    counts = [len(each.load_points) for each in (workload, other)]
    if workload is other or counts[0] != counts[1] or not counts[0]:
        raise UserError(
            f"{where}.versus: {workload.versus} has {counts[1]} load points, and this workload"
            f" {counts[0]}; expected another workload with as many, of which the first is compared"
            " with the first, and so on"
        )


def _beyond_trace(workload: Workload, point: LoadPoint, dataset: Dataset, root: Path) -> str | None:
    """Say how many requests a trace has if a load point asks for more; a duration may end it."""
    if workload.arrivals != "trace" or point.duration_s or point.requests is None:
        return None
    asked = point.requests + workload.settle_requests + workload.cooldown_requests
    trace = trace_of(dataset, root)
    if trace is None or asked <= trace.lines:
        return None
    return (
        f"asks for {asked:,} requests, but {workload.dataset} has {trace.lines:,}; lower requests"
    )


def check_quality(params: Params, study: Study, names: list[str], root: Path) -> None:
    """Check that the corpus holds documents, and that the weights of each variant mean something.

    Raises:
        UserError: the first that does not.
    """
    if study.quality is None:
        return
    where = f"studies/{params.study}.yaml: quality"
    if corpus := study.quality.corpus:
        dataset = study.datasets[corpus]
        has_ids = dataset.kind in ("random", "mooncake", "burstgpt")
        if has_ids or content_of(dataset, root).needs_chat:
            raise UserError(
                f"{where}.corpus: {corpus} is a {dataset.kind} dataset, which has no documents;"
                " use one with text prompts: text, text-files or file"
            )
    if asked := study.quality.questions:
        kind = study.datasets[asked.dataset].kind
        if kind != "checked":
            raise UserError(
                f"{where}.questions.dataset: {asked.dataset} is a {kind} dataset, whose answers"
                " nothing can check; use one of kind checked"
            )
    for name in names:
        variant = study.variants[name]
        model = variant.model
        load_format = {**study.server, **variant.server, **params.overrides}.get("load_format")
        if (model and study.models[model].is_dummy) or load_format == "dummy":
            raise UserError(
                f"{where}: {name} has dummy weights (model {model}), whose answers mean"
                " nothing; leave quality out, or use a model with weights"
            )


def endpoint_of(workload: Workload, dataset: Dataset, root: Path) -> str:
    """Return `chat` or `completions`: what the workload says, or what its dataset needs."""
    return workload.endpoint or ("chat" if content_of(dataset, root).needs_chat else "completions")
