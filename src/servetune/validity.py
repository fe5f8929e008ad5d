"""Rules that a measurement must pass before its numbers enter a table."""

from servetune.records import Metrics, Status


def judge(metrics: Metrics, first_error: str | None) -> tuple[Status, str | None, str | None]:
    """Return the status of a measurement, the rule that it breaks, and the reason.

    Args:
        metrics: its aggregates.
        first_error: the error of the first request that failed, if one did.
    """
    told = f": {first_error}" if first_error else ""
    if metrics.completed_requests == 0:
        return "failed", None, f"no request was answered{told}"
    if metrics.failed_requests:
        counted = f"{metrics.failed_requests} of {metrics.requests} requests failed"
        return "invalid", "failed-requests", f"{counted}{told}"
    return "ok", None, None
