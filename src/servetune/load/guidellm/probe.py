"""A constraint in GuideLLM's registry that ends a load once its probe has ended.

`--constraint kind=capacity_probe,file=PATH` names the probe's rule as JSON, beside the schedule.
GuideLLM tells a constraint the times of a request, not those of its chunks, so that an objective on
ITL cannot be judged here.
"""

from pathlib import Path
from typing import Any, Literal

from guidellm.benchmark import BenchmarkArgs, BenchmarkScenario
from guidellm.scheduler.constraints.constraint import Constraint, PydanticConstraintInitializer
from guidellm.scheduler.constraints.factory import ConstraintsInitializerFactory
from guidellm.scheduler.schemas import SchedulerState, SchedulerUpdateAction
from guidellm.schemas import RequestInfo
from guidellm.schemas.scheduler.constraints.args import ConstraintArgs
from pydantic import Field, PrivateAttr

from servetune.capacity.sequential import Finished
from servetune.load.generator import ProbeRule
from servetune.load.inside.judge import Judge
from servetune.load.schedule import SCHEDULE, ScheduledRequest, read_schedule

KIND = "capacity_probe"
RULE = "probe-rule.json"


class ProbeArgs(ConstraintArgs):  # type: ignore[misc]
    """The words of the constraint."""

    kind: Literal["capacity_probe"] = Field(default="capacity_probe")
    file: Path = Field(description="the probe's rule, beside its schedule")


class ProbeConstraint(PydanticConstraintInitializer):  # type: ignore[misc]
    """Ends the load, and what is in flight, when the judge ends the probe."""

    type_: Literal["capacity_probe"] = "capacity_probe"
    args: ProbeArgs
    _judge: Judge = PrivateAttr()
    _schedule: list[ScheduledRequest] = PrivateAttr()

    def create_constraint(self, **_: Any) -> Constraint:
        """Return the constraint of one load."""
        self._judge = Judge(ProbeRule.model_validate_json(self.args.file.read_bytes()))
        self._schedule = read_schedule(self.args.file.with_name(SCHEDULE))
        return self

    def __call__(self, state: SchedulerState, info: RequestInfo | None) -> SchedulerUpdateAction:
        """Take note of a request that ended, and say whether to go on."""
        has_ended = self._judge.ended_by is not None
        if not has_ended and info is not None and info.status in ("completed", "errored"):
            has_ended = self._judge.add(_finished(info, self._schedule[int(info.node_id)]))
            if has_ended:
                self._judge.write(self.args.file.parent)
        word = {True: ("stop", "stop_local"), False: ("continue", "continue")}[has_ended]
        return SchedulerUpdateAction(request_queuing=word[0], request_processing=word[1])


def _finished(info: RequestInfo, scheduled: ScheduledRequest) -> Finished:
    times = info.timings
    sent_s = times.request_start or times.resolve_start or times.finalized
    first_s, last_s = times.first_token_iteration, times.last_token_iteration
    if info.status == "errored" or first_s is None or last_s is None:
        return Finished(scheduled.index, sent_s, times.resolve_end or sent_s, has_failed=True)
    later_tokens = max(times.token_iterations, scheduled.output_tokens) - 1
    return Finished(
        index=scheduled.index,
        arrival_s=sent_s,
        finish_s=last_s,
        ttft_ms=1e3 * (first_s - sent_s),
        tpot_ms=1e3 * (last_s - first_s) / later_tokens if later_tokens else None,
        e2e_ms=1e3 * (last_s - sent_s),
    )


def install() -> None:
    """Let GuideLLM know the constraint."""
    ConstraintArgs.register(KIND)(ProbeArgs)
    ConstraintsInitializerFactory.register(KIND)(ProbeConstraint)
    # Their schemas hold the kinds that were known when GuideLLM was imported.
    for schema in (BenchmarkArgs, BenchmarkScenario):
        schema.reload_schema()
