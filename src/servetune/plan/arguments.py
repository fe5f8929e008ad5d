"""The arguments of planned servers, held against engines that are there."""

from servetune.engines.arguments import check_arguments
from servetune.engines.environments import BuiltEngine, read_engine
from servetune.engines.registry import program_of
from servetune.plan.planned import Plan, Session


def check_built(id: str, plan: Plan) -> None:
    """Check what an engine was built for: the arguments of all servers that a plan gives it.

    Raises:
        UserError: the first that it does not know, or whose value it refuses.
    """
    for session in plan.sessions:
        if session.engine == id:
            check_served_arguments(session, read_engine(id))


def check_served_arguments(session: Session, engine: BuiltEngine) -> None:
    """Hold the arguments of a session's server against its engine; raises UserError."""
    where = f"studies/{session.study}.yaml: variants.{session.variant}: server."
    program = program_of(engine.versions)
    check_arguments(session.server, engine.arguments, where, program)
    for role, pool in session.roles.items():
        of_role = where.replace("server.", f"roles.{role}.server.")
        check_arguments(pool.server, engine.arguments, of_role, program)
