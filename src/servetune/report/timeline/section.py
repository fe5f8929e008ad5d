"""What the servers told while they were loaded."""

from servetune.report.grammar import distinct
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.timeline.charts import drawn, samples_of


def section(measured: Measured) -> Section | None:
    """Make the section; None without telemetry."""
    if measured.over_time.empty:
        return None
    samples, seen = samples_of(measured.over_time), measured.loaded
    words = {
        "runs": distinct(samples, "run"),
        "seen": seen,
        "has_power": any(case.value("gpu_power_mean_w") is not None for case in seen),
    }
    return Section("timeline", "Timeline", words, drawn(samples, measured.variants))
