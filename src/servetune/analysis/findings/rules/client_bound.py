"""The load client had no time to spare: the numbers are its own as much as the server's."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import ms, percent

CLIENT = {"client-cpu", "client-late", "client-starved"}
"""The rules of validity that say so."""


def find(case: Case) -> Finding | None:
    """Look at whether the measurement is invalid for its client."""
    if not case.has_numbers or not case.broken & CLIENT:
        return None
    busy, starved = case.card("client_cpu_ratio"), case.card("client_wait_ratio")
    late_ms = case.card("send_delay_p99_ms")
    return Finding(
        title="The client is the bottleneck.",
        evidence=(
            *([("client, of one core", percent(busy))] if busy is not None else []),
            *([("waiting for a core", percent(starved))] if starved is not None else []),
            *([("sent late, p99", ms(late_ms))] if late_ms is not None else []),
        ),
        attempts=(
            "leave the client cores of its own, or run it on another machine",
            "send less at once: measure several load points below this one",
        ),
        # It decides whether the other findings hold at all.
        gain=2.0,
        chart="validity",
    )
