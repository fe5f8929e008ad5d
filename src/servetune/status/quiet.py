"""Snakemake's own lines: kept to its log, but for what a user has to read."""

import logging
from collections.abc import Callable, Iterable


def keep_to_log(terminal: Iterable[logging.Handler], is_local: Callable[[], bool]) -> None:
    """Keep Snakemake's own lines off its handlers of the terminal; .snakemake/log has them all.

    Warnings and errors stay, but for what a failed step prints of itself anyway. Where jobs are
    a cluster's, which is known only later, all stays: they print nothing here.
    """
    for handler in terminal:
        handler.addFilter(lambda record: _is_for_the_user(record) or not is_local())


def _is_for_the_user(record: logging.LogRecord) -> bool:
    message = str(record.msg)
    if record.levelno < logging.WARNING:
        return message.startswith("Nothing to be done")
    is_of_a_step = "job_error" in str(getattr(record, "event", "")).lower()
    is_of_a_step |= message.startswith("RuleException") and "CalledProcessError" in message
    return not (is_of_a_step or message.startswith("Exiting because a job execution failed"))
