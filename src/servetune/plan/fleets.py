"""What cannot be served by replicas behind a gateway: refused before anything starts."""

from servetune.errors import UserError
from servetune.plan.checks import engine_of
from servetune.study.engines import family_of
from servetune.study.families import VLLM
from servetune.study.gateways import KV_AWARE, DeclaredGateway
from servetune.study.generators import OWN
from servetune.study.study import Study, Variant

KV_EVENTS = "kv_events_config"


def check_fleets(name: str, study: Study, names: list[str]) -> None:
    """Check the variants among some that have replicas or a gateway.

    Raises:
        UserError: the first that cannot be served so.
    """
    if study.tune and study.variants[study.tune.base].gateway:
        raise UserError(
            f"studies/{name}.yaml: tune.base: {study.tune.base} has a gateway, and a tuning"
            " compares single servers; name another variant"
        )
    for key in names:
        variant, where = study.variants[key], f"studies/{name}.yaml: variants.{key}"
        _check_kills(name, study, key)
        if variant.roles:
            _check_roles(variant, where)
        if variant.gateway is None:
            if variant.replicas > 1:
                raise UserError(
                    f"{where}.replicas: {variant.replicas} servers need a gateway; add gateway:"
                    " {kind: vllm-router, policy: round_robin}"
                )
            continue
        engine = engine_of(study, variant)
        if engine is not None and (family := family_of(engine)) != VLLM:
            raise UserError(
                f"{where}.gateway: is known to work before vllm serve, not before {family.title};"
                " leave it out"
            )
        if variant.neighbours is not None:
            raise UserError(
                f"{where}.neighbours: replicas share the host among themselves; leave it out"
            )
        events = {**study.server, **variant.server}.get(KV_EVENTS)
        if not isinstance(variant.gateway, DeclaredGateway):
            continue
        if variant.gateway.policy == KV_AWARE and events is not None:
            raise UserError(
                f"{where}.server.{KV_EVENTS}: is set for {KV_AWARE}, so that its gateway finds"
                " them; leave it out"
            )


def _check_kills(name: str, study: Study, key: str) -> None:
    """Check that each replica which a variant's loads kill is there, and leaves another."""
    variant = study.variants[key]
    for sent in variant.workloads or study.workloads:
        workload = study.workloads[sent]
        for i, point in enumerate(workload.load_points):
            where = f"studies/{name}.yaml: workloads.{sent}.load_points.{i}.kill"
            if point.kill is None:
                continue
            if variant.gateway is None or variant.replicas < max(2, point.kill.replica):
                raise UserError(
                    f"{where}: variants.{key} has no replica {point.kill.replica} beside another;"
                    " name the workloads of those that have in their workloads"
                )
            if workload.generator != OWN:
                raise UserError(f"{where}: only the generator {OWN} sends such a load")


def _check_roles(variant: Variant, where: str) -> None:
    """Check that a gateway knows the roles of a variant; raises UserError."""
    assert variant.roles, "a variant with roles"
    if not isinstance(variant.gateway, DeclaredGateway):
        raise UserError(
            f"{where}.roles: need a gateway that sends prompts to one pool and answers to the"
            " other; add gateway: {kind: vllm-router, policy: round_robin}"
        )
    if variant.gateway.policy == KV_AWARE:
        raise UserError(
            f"{where}.gateway.policy: {KV_AWARE} is not known to work between roles; write another"
        )
    if variant.replicas > 1:
        raise UserError(f"{where}.replicas: each role has its own; leave it out")
    for role, pool in variant.roles.pools.items():
        for name in pool.server:
            if name.endswith("_parallel_size"):
                raise UserError(
                    f"{where}.roles.{role}.server.{name}: pools have equal parts of a host; set it"
                    " in the variant's server"
                )
