"""Rules about clients that leave before the end of their answers."""

from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.wording import proportion
from servetune.numbers import whole
from servetune.records.leavers import LeaverMetrics

ENOUGH_REQUESTS = 5

MOST = 0.5
"""Of the tokens that nobody read: a server that stops makes the few that were on their way."""


@rule
def serves_who_left(case: Case) -> Finding | None:
    """The server goes on generating for clients that closed their connections."""
    told = case.row.get("leavers")
    left = LeaverMetrics.model_validate_json(told) if isinstance(told, str) else None
    if left is None or left.requests < ENOUGH_REQUESTS or (left.extra_ratio or 0.0) < MOST:
        return None
    return Finding(
        title="The server goes on generating for clients that left.",
        evidence=(
            ("clients that left", whole(left.requests)),
            ("tokens that nobody read", f"{whole(left.extra_tokens)}"),
            ("of those asked for and not read", proportion(left.extra_ratio or 0.0)),
        ),
        attempts=(
            "close the connection of whatever stands before the server when the client closes its"
            " own: a proxy that reads an answer to its end hides that its client has gone",
            "an engine that aborts a request whose connection is closed",
        ),
        # What it makes for nobody, it could make for others.
        gain=1 + (left.extra_tokens or 0.0) / max(1, left.read_tokens + left.unread_tokens),
        chart="measurements",
    )
