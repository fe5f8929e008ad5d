"""What the servers told while they were loaded."""

from dataclasses import dataclass

from servetune.analysis.findings.gather import Case
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.timeline.charts import drawn, runs


@dataclass(frozen=True)
class Timeline:
    """What the template takes: the names of the runs, and what was seen under each load."""

    runs: list[str]
    seen: list[Case]

    @property
    def has_power(self) -> bool:
        """Whether any GPU told its power."""
        return any(case.value("gpu_power_mean_w") is not None for case in self.seen)


def section(measured: Measured) -> Section | None:
    """Make the section; None without telemetry."""
    names = list(runs(measured.over_time))
    words = Timeline(names, measured.loaded)
    return Section("timeline", "Timeline", words, drawn(measured.over_time)) if names else None
