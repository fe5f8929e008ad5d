"""The load of a measurement, as it is planned, told to a load client, and recorded."""

from servetune.study.workloads import POOLED, Endpoint, LoadPoint, Traffic


class PlannedTraffic(Traffic):
    """What the loads of a workload have in common. `dataset` is the id of the one to send."""

    endpoint: Endpoint
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

    @property
    def is_pooled(self) -> bool:
        """Whether answers come whole, without tokens: embeddings, or a rerank."""
        return self.endpoint in POOLED


class Load(LoadPoint, PlannedTraffic):
    """One load, all of it."""
