"""The terms of the report; its template holds them."""

from servetune.report.measured import Measured
from servetune.report.section import Section


def section(measured: Measured) -> Section:
    """Make the section."""
    return Section("glossary", "Glossary")
