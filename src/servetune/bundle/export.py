"""Writing a bundle: code, checkpoints, datasets and sessions in one file that Python runs."""

import json
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from servetune.bundle import start
from servetune.bundle.manifest import (
    GATEWAY,
    MANIFEST,
    BundledEngine,
    BundledGateway,
    Manifest,
)
from servetune.bundle.requirements import requirements
from servetune.bundle.results import KINDS
from servetune.bundle.rounds import TUNING, BundledTuning
from servetune.engines.environments import (
    cache_root,
    description_file,
    site_packages,
    vllm_version,
)
from servetune.errors import UserError
from servetune.files import read_model, whole_file, write_json
from servetune.models.make import MANIFEST as MODEL_MANIFEST
from servetune.models.make import ModelManifest, checkpoint, model_folder
from servetune.plan.identity import digest
from servetune.plan.kept import so_far
from servetune.plan.make import declare_candidates
from servetune.plan.order import in_rounds
from servetune.plan.pending import pending_of
from servetune.plan.planned import Plan, PlannedCommand, PlannedGateway, Session
from servetune.plan.rounds import launch_each, sends_others, until
from servetune.plan.workflow import run_workflow
from servetune.records.paths import launch_files, quality_path, record_path
from servetune.sessions.provenance import EXPORTED, git_state
from servetune.study.engines import Engine, EngineVersion, family_of
from servetune.study.families import VLLM
from servetune.study.gateways import VLLM_ROUTER
from servetune.study.generators import GENERATORS
from servetune.study.study import read_study
from servetune.tables.freshness import round_due
from servetune.tables.prior_results import prior_results
from servetune.tables.rounds import forget_rounds

PACKED_BYTES = 2 * 1024**3
"""A checkpoint that lies outside the project and is larger stays where it is: the measuring host
is told where it has it."""


HEAD = b"#!/usr/bin/env python3\n# coding: this-bundle-is-damaged.copy-it-again\n"
"""Before the zip archive, whose directory is at its end. A copy that was cut short has none:
Python reads it as source, and ends with one line that names this unknown encoding."""


PACKAGES = {VLLM_ROUTER: "vllm_router*"}
"""What of a gateway's environment goes along: its own code, of any Python; vLLM has its needs."""


def export_bundle(plan: Plan, out: Path, root: Path) -> Manifest:
    """Write the sessions that a plan still owes as one file; returns what it says of itself.

    Models and datasets that are not here yet are made first, by the workflow. A tuning that has
    not ended goes along whole: the host that measures a round chooses the next one.

    Raises:
        UserError: nothing is owed, or a session needs what a bundle cannot hold.
    """
    if plan.deciding:
        raise UserError(
            f"studies/{plan.study}.yaml: repeats: what is launched again is chosen where the"
            " results are, so a bundle takes a number: add --config"
            f" repeats={plan.deciding.until.least}"
        )
    tuning = _tuning(plan, root)
    plan = tuning.plan if tuning else plan
    sessions = in_rounds(
        [one for one in plan.sessions if pending_of(one, root).count], plan.sessions
    )
    if not sessions and not tuning:
        raise UserError(f"{plan.study}: everything is measured; there is nothing to export")
    needing = [*sessions, *(_of_candidates(tuning) if tuning else [])]
    _refuse_beyond(plan, needing)
    models = sorted({model for session in needing for model in session.models})
    datasets = sorted({dataset for session in needing for dataset in session.datasets})
    gateways = {
        gateway.environment: gateway
        for each in needing
        if isinstance(gateway := each.gateway, PlannedGateway)
    }
    _make_missing(plan, models, datasets, [*gateways], root)
    packed = {id for id in models if _is_packed(id, root)}
    manifest = Manifest(
        study=plan.study,
        sessions=sessions,
        engines={
            id: BundledEngine(
                vllm=vllm_version(plan.engines[id], root), packages=_packages(plan.engines[id])
            )
            for id in {id for session in needing for id in session.engines}
        },
        gateways={
            id: BundledGateway(kind=each.kind, version=each.version)
            for id, each in gateways.items()
        },
        elsewhere={id: plan.models[id].source for id in models if id not in packed},
        gpus=max(session.gpus for session in needing),
        environment_from=sorted({name for each in needing for name in each.environment_from}),
        is_tuned=tuning is not None,
    )
    content = dict(_content(manifest, packed, datasets, root))
    if tuning:
        content |= _of_tuning(tuning, root)
    with whole_file(out) as temporary, temporary.open("wb") as file:
        file.write(HEAD)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name, of in content.items():
                if isinstance(of, bytes):
                    bundle.writestr(name, of)
                else:
                    bundle.write(of, name)
        temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR)
    return manifest


def _tuning(plan: Plan, root: Path) -> BundledTuning | None:
    """Return what the rounds to come are chosen by; None without a tuning, or once it has ended."""
    if plan.tuning is None:
        return None
    plan = until(plan, round_due(plan, root)[0])
    assert plan.tuning is not None
    if plan.tuning.has_ended:
        return None
    # The host writes those that come next, and they are taken where none is.
    forget_rounds(plan.study, len(plan.tuning.rounds) + 1, root)
    declared = declare_candidates(plan, read_study(plan.study, root), root)
    return BundledTuning(
        plan=plan,
        declared=replace(declared, root=Path()),
        elsewhere=prior_results(declared, plan, root),
    )


def _of_candidates(tuning: BundledTuning) -> list[Session]:
    assert tuning.plan.tuning is not None
    of, declared = tuning.plan.tuning, tuning.declared
    raced = launch_each(declared, of.candidates)
    others = sends_others(declared, of)
    return [*raced, *(launch_each(declared, of.candidates[:1], others) if others else [])]


def _of_tuning(tuning: BundledTuning, root: Path) -> Iterator[tuple[str, Path | bytes]]:
    """Yield what chooses the rounds, and all that was recorded: a launch may find its own there."""
    project, results = Path("project"), root / "results" / tuning.plan.study
    yield str(project / TUNING), tuning.model_dump_json().encode()
    for kind in (*KINDS, "tuning"):
        for file in sorted((results / kind).glob("*.json")):
            yield str(project / file.relative_to(root)), file


def _content(
    manifest: Manifest, packed: set[str], datasets: list[str], root: Path
) -> Iterator[tuple[str, Path | bytes]]:
    """Yield the names inside the bundle, with the file or the bytes that stand there."""
    package = Path(start.__file__).parents[1]
    needed = {**start.NEEDED, **(start.TO_TUNE if manifest.is_tuned else {})}
    yield start.REQUIREMENTS, requirements(needed.values(), root).encode()
    yield "__main__.py", Path(start.__file__)
    for file in sorted(package.rglob("*.py")):
        yield str(Path("src", package.name, file.relative_to(package))), file
    project = Path("project")
    yield str(project / MANIFEST), manifest.model_dump_json().encode()
    yield str(project / EXPORTED), json.dumps(git_state(root)).encode()
    # What is known of hosts, as the one that measures looks into its own cache.
    for file in sorted((cache_root() / "hosts").glob("*/*.json")):
        yield str(project / ".cache" / file.relative_to(cache_root())), file
    for id in manifest.gateways:
        site = site_packages(id)
        for file in chain.from_iterable(
            map(_files, site.glob(PACKAGES[manifest.gateways[id].kind]))
        ):
            yield str(project / GATEWAY / file.relative_to(site)), file
    for id in sorted(packed):
        folder = model_folder(id, project)
        made = read_model(model_folder(id, root) / MODEL_MANIFEST, ModelManifest)
        packed_as = made.model_copy(update={"checkpoint": "."})
        yield str(folder / MODEL_MANIFEST), packed_as.model_dump_json().encode()
        for file in _files(checkpoint(id, root)):
            if file.name != MODEL_MANIFEST:
                yield str(folder / file.relative_to(checkpoint(id, root))), file
    for id in datasets:
        path = Path("data", "workloads", f"{id}.jsonl")
        yield str(project / path), root / path
    for session in manifest.sessions:
        # What was measured before, so that the host goes on and counts its launches on.
        probes = (so_far(session, search, root) for search in session.searches)
        ids = [m.id for m in session.measurements]
        ids += [record.measurement for record in chain.from_iterable(probes)]
        records = [record_path(session.study, id, root) for id in ids]
        if session.quality:
            records.append(quality_path(session.study, session.quality.id, root))
        records += launch_files(session.study, session.id, root)
        for file in filter(Path.is_file, records):
            yield str(project / file.relative_to(root)), file


def _files(folder: Path) -> list[Path]:
    found = [folder] if folder.is_file() else folder.rglob("*")
    return sorted(path for path in found if path.is_file() and path.suffix != ".pyc")


def _is_packed(id: str, root: Path) -> bool:
    """Whether a checkpoint goes along: it was made here, or is small."""
    folder = checkpoint(id, root)
    return (
        folder == model_folder(id, root).absolute()
        or sum(file.stat().st_size for file in _files(folder)) <= PACKED_BYTES
    )


def _packages(engine: Engine) -> dict[str, str]:
    return engine.versions if isinstance(engine, EngineVersion) else {}


def _refuse_beyond(plan: Plan, sessions: list[Session]) -> None:
    for session in sessions:
        where = f"studies/{session.study}.yaml: variants.{session.variant}"
        if session.endpoint:
            raise UserError(
                f"{where}.endpoint: an endpoint may not be reached from another host; measure it"
                " from here"
            )
        if session.results:
            raise UserError(
                f"{where}.results: are measured already; leave it out of variants in params.yaml"
                " for this host"
            )
        if isinstance(session.gateway, PlannedCommand):
            raise UserError(
                f"{where}.gateway: a bundle includes no gateway but {VLLM_ROUTER}; leave the"
                " variant out of variants in params.yaml for this host"
            )
        family = family_of(plan.engines[session.engine]) if session.engine else VLLM
        if family != VLLM:
            raise UserError(
                f"{where}.engine: a bundle is measured by a host's vLLM, and includes no"
                f" {family.name}; leave it out of variants in params.yaml for this host"
            )
        if session.quality and session.quality.lm_eval:
            raise UserError(
                f"studies/{session.study}.yaml: quality.lm_eval: lm-eval needs an environment of"
                " its own, which a bundle does not include; leave it out for this host"
            )
        for measurement in session.measurements:
            name = measurement.load.generator
            if GENERATORS[name].environment is not None:
                raise UserError(
                    f"studies/{session.study}.yaml: workloads.{measurement.workload}.generator:"
                    f" {name} needs an environment of its own, which a bundle does not include;"
                    " leave generator out, or use vllm-bench, which is part of the engine"
                )


def _make_missing(
    plan: Plan, models: list[str], datasets: list[str], gateways: list[str], root: Path
) -> None:
    wanted = [
        *(str(description_file(id)) for id in gateways),
        *(f"data/models/{id}/{MODEL_MANIFEST}" for id in models),
        *(f"data/workloads/{id}.jsonl" for id in datasets),
    ]
    missing = [path for path in wanted if not (root / path).is_file()]
    if not missing:
        return
    params = Path(".servetune", f"params-{digest(plan.params.model_dump())}.json")
    write_json(root / params, plan.params)
    if not run_workflow(missing, ["--configfile", str(params)], root):
        raise UserError(f"{plan.study}: could not make its models, datasets or gateway; see above")
