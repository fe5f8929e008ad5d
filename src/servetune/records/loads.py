"""The load of a measurement, as it is planned, told to a load client, and recorded."""

from typing import Literal

from servetune.study.workloads import LoadPoint, Traffic


class PlannedTraffic(Traffic):
    """What the loads of a workload have in common. `dataset` is the id of the one to send."""

    endpoint: Literal["completions", "chat"]
    # A record tells a whole number as it was written: 0 does not become 0.0.
    ramp_up_s: int | float = 0
    seed: int

    def at(self, point: LoadPoint) -> "Load":
        """Return the load of one load point."""
        return Load(**self.model_dump(), **point.model_dump())

    @property
    def is_chat(self) -> bool:
        """Whether prompts are sent as the messages of a chat."""
        return self.endpoint == "chat"


class Load(LoadPoint, PlannedTraffic):
    """One load, all of it."""
