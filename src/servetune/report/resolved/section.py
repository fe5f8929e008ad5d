"""What the servers of the variants resolved differently."""

from servetune.analysis.wording import plural
from servetune.engines.registry import package_of
from servetune.records.resolved import NONE
from servetune.records.sessions import Launch
from servetune.report.gfm import details, table_of
from servetune.report.measured import Measured
from servetune.report.resolved.view import differences
from servetune.report.section import Fit, Plain, Section
from servetune.report.table import Table

TITLE = "Resolved differently"

SAID = (
    "What the servers made of their launches, where variants differ: endpoints that answer,"
    f" choices at start, ignored settings, configuration. {NONE}: not set, or not known there."
)


def section(measured: Measured) -> Section | None:
    """Make the section; None where all variants are alike, or fewer than two told anything."""
    launches: dict[str, list[Launch]] = {name: [] for name in measured.variants}
    for session in measured.sessions.values():
        launches.setdefault(session.variant, []).extend(session.launches)
    found = differences(launches)
    if found is None:
        return None
    heads = ["Setting", *found.columns]
    table = Table(TITLE, heads, found.rows, texts=heads)
    packages = (launch.versions for some in launches.values() for launch in some)
    versions = {named.get(package_of(named)) for named in packages}

    def markdown(fit: Fit) -> str | None:
        # Between arguments of one version it is no news.
        if len(versions) < 2:
            return None
        return details(TITLE, table_of(measured, table, fit.rows, " ".join(found.shut)))

    words = Plain(" ".join([SAID, *found.shut]), table)
    return Section(
        "resolved", TITLE, words, markdown=markdown, counts=plural(len(found.rows), "setting")
    )
