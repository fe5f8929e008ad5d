"""What a variant is served with wherever it runs, and what was measured of it."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from servetune.analysis.wording import where_of
from servetune.engines.arguments import as_argv
from servetune.engines.environments import description_file, known_parser, read_engine, vllm_version
from servetune.errors import DamagedError, UserError, nearest
from servetune.models.make import checkpoint
from servetune.numbers import known, number
from servetune.plan.planned import Plan, Session
from servetune.report.capacity.launches import launches_together
from servetune.report.measured import Measured
from servetune.report.provenance import checkouts, launches_of
from servetune.report.reading import read_so_far
from servetune.study.engines import VERSION, Engine, EngineVersion, family_of
from servetune.study.families import VLLM
from servetune.study.models import HuggingFace
from servetune.tables.frames import declared, records_of

MEASURING = ("VLLM_SERVER_DEV_MODE",)
"""Variables that no deployed server has, also where a study sets them."""

OTHERWISE = (
    "not as measured: where the model lies, host, port, served name and key. Left out, as they are"
    " for measuring: --middleware, VLLM_SERVER_DEV_MODE, and where the study does not set them"
    " --enable-prompt-tokens-details, HF_HUB_OFFLINE, VLLM_NO_USAGE_STATS, GLOO_SOCKET_IFNAME,"
    " NCCL_SOCKET_IFNAME"
)


@dataclass(frozen=True)
class Checkpoint:
    """A model to load: of a hub, by `repo` and `revision`, or in the folder `path` of this host."""

    id: str
    path: Path
    repo: str | None = None
    revision: str | None = None


Place = Callable[[Checkpoint], str]
"""Says by what a server finds a checkpoint that is in a folder of this host."""


@dataclass(frozen=True)
class Served:
    """A variant to deploy.

    Attributes:
        name: of the variant, by which clients ask for it.
        vllm: the version of vLLM that was measured, or is declared; None where neither is known.
        command: the program that serves on this host, where its engine is built.
        gpus: devices that the server takes; 0 on processors.
        arguments: those of `vllm serve` beside its model, address and name.
        environment_from: variables whose values are secret, and not known here.
        notes: what is known of it, a line each.
    """

    name: str
    study: str
    vllm: str | None
    command: Path | None
    gpus: int
    model: Checkpoint
    draft: Checkpoint | None
    arguments: tuple[str, ...]
    speculative: dict[str, object] | None
    environment: dict[str, str]
    environment_from: tuple[str, ...]
    notes: tuple[str, ...]

    def words(self, place: Place) -> list[str]:
        """Return the words after `vllm serve`, without an address."""
        words = [self.model.repo or place(self.model)]
        if self.model.revision:
            words += ["--revision", self.model.revision]
            words += ["--tokenizer-revision", self.model.revision]
        words += [*self.arguments, "--served-model-name", self.name]
        return [*words, *self.speculative_words(place)]

    def speculative_words(self, place: Place) -> list[str]:
        """Return the words that tell the server to speculate; none where it does not."""
        if not self.speculative:
            return []
        drafts: dict[str, object] = {}
        if self.draft:
            drafts["model"] = self.draft.repo or place(self.draft)
        if self.draft and self.draft.revision:
            drafts["revision"] = self.draft.revision
        return ["--speculative-config", json.dumps({**self.speculative, **drafts})]

    @property
    def local(self) -> list[Checkpoint]:
        """The checkpoints that no hub has."""
        return [each for each in (self.model, self.draft) if each and not each.repo]


def served(plan: Plan, variant: str, root: Path) -> Served:
    """Return a variant of the plan to deploy.

    Raises:
        UserError: no such variant, or its arguments are not known to its engine.
    """
    sessions = {s.variant: s for s in reversed(plan.sessions)}
    if variant not in sessions:
        expected = f"expected one of {', '.join(plan.variants)}{nearest(variant, plan.variants)}"
        raise UserError(f"{variant}: no such variant; {expected}")
    session = sessions[variant]
    if session.adapters:
        raise UserError(
            f"{variant}: serves LoRA adapters, which deploy does not write; deploy a variant"
            " without adapters"
        )
    if session.gateway:
        raise UserError(
            f"{variant}: has a gateway before its replicas, which deploy does not write; deploy a"
            " variant without one"
        )
    if session.results:
        raise UserError(f"{variant}: was measured before, by another tool; name another variant")
    if session.engine is None or session.model is None:
        raise UserError(f"{variant}: is an endpoint, which runs already; name another variant")
    engine = plan.engines[session.engine]
    if (family := family_of(engine)) != VLLM:
        raise UserError(
            f"{variant}: is served by {family.name}, and deploy writes commands of vllm serve"
            " alone; deploy another variant"
        )
    parser = known_parser(engine, root)
    if parser is None:
        raise UserError(
            f"{variant}: the arguments of its engine are not known here;"
            " run this where it was measured, or record them with"
            " workflow/envs/record_arguments.py"
        )
    return Served(
        name=variant,
        study=plan.study,
        vllm=_version(engine, root),
        command=_command(session.engine),
        gpus=session.gpus,
        model=_checkpoint(plan, session.model, root),
        draft=_checkpoint(plan, session.draft, root) if session.draft else None,
        arguments=tuple(as_argv(session.server, parser)),
        speculative=session.speculative,
        environment={k: v for k, v in session.environment.items() if k not in MEASURING},
        environment_from=tuple(session.environment_from),
        notes=(*_notes(plan, session, root), OTHERWISE),
    )


def _version(engine: Engine, root: Path) -> str | None:
    version = vllm_version(engine, root)
    if version is not None and not re.fullmatch(VERSION, version):
        raise UserError(f"{version}: expected a version of vLLM, such as 0.26.0")
    return version


def _command(engine: str) -> Path | None:
    if not description_file(engine).is_file():
        return None
    program = read_engine(engine).python.parent / "vllm"
    return program if program.is_file() else None


def _checkpoint(plan: Plan, id: str, root: Path) -> Checkpoint:
    source = plan.models[id].source
    if isinstance(source, HuggingFace):
        return Checkpoint(id, Path(), source.repo, source.revision)
    try:
        return Checkpoint(id, checkpoint(id, root))
    except UserError:
        # Not made here, or not yet: it will lie where this project puts it.
        return Checkpoint(id, (root / "data" / "models" / id).absolute())


def _notes(plan: Plan, session: Session, root: Path) -> Iterator[str]:
    if any(plan.models[id].source.is_dummy for id in session.models):
        yield "dummy weights: its speed is real, its text is not"
    engine = plan.engines[session.engine] if session.engine else None
    if isinstance(engine, EngineVersion) and engine.packages:
        packages = ", ".join(engine.packages)
        yield f"beside vLLM it needs {packages}, which vLLM's image lacks: add them to yours"
    try:
        measured = read_so_far(plan, root)
    except DamagedError:
        raise
    except UserError:
        yield "not measured here"
        return
    table = measured.table[measured.table["variant"] == session.variant]
    if not (launches := launches_of(table, measured.sessions)):
        yield "not measured here"
        return
    commits = sorted({sha[:12] for sha in checkouts(launches)})
    yield f"measured on {plan.hardware}, at commit {', '.join(commits) or 'not known'}"
    yield from _capacities(session.variant, measured)
    yield from _throughput(declared(table))


def _capacities(variant: str, measured: Measured) -> Iterator[str]:
    """Tell the capacity of each SLO, with its interval."""
    for each in launches_together(measured.found):
        if each.row["variant"] == variant:
            confidence = f"{each.row['confidence']:.0%}"
            answer = f"{each.capacity} {each.unit} ({confidence} interval {each.interval})"
            told = each.ended if each.has_no_answer else answer
            yield f"capacity, {each.place}, {each.within}: {told}"


def _throughput(points: pd.DataFrame) -> Iterator[str]:
    """Tell the load point with the highest throughput; a load that was not ok tells nothing."""
    ok = records_of(points[points["status"] == "ok"])
    if ok:
        row = max(ok, key=lambda row: known(row["output_throughput_tok_s"]) or 0.0)
        yield (
            f"{where_of(row)}: {number(row['output_throughput_tok_s'])} output tok/s,"
            f" TTFT p50 {number(row['ttft_p50_ms'])} ms, TPOT p50 {number(row['tpot_p50_ms'])} ms"
        )
