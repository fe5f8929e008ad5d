"""One variant's quality, on the server of a session: every document of the corpus, one by one.

One request at a time, so that no other request in the batch decides how sums are rounded.
"""

import time
from pathlib import Path

import httpx

from servetune.errors import UserError
from servetune.plan.planned import PlannedQuality, Session
from servetune.progress import say
from servetune.records.paths import raw_folder
from servetune.records.quality import Document, QualityRecord
from servetune.sessions.measure import LOG_TAIL_LINES
from servetune.sessions.provenance import now
from servetune.sessions.quality.ask import RefusedError, ask
from servetune.sessions.quality.harness import HarnessError, run_tasks
from servetune.sessions.server.process import Server, ServerError
from servetune.telemetry.sampler import wait_idle
from servetune.workloads.datasets import read_requests

TELL_EVERY_S = 10.0
UNUSABLE = (RefusedError, UserError, httpx.HTTPError, OSError, LookupError, TypeError, ValueError)
"""What an answer that cannot be used raises."""


def blank_quality(
    session: Session, quality: PlannedQuality, launch: int, command: list[str]
) -> QualityRecord:
    """Return a record of a quality of which nothing is known yet."""
    return QualityRecord(
        quality=quality.id,
        study=session.study,
        variant=session.variant,
        status="failed",
        session=session.id,
        launch=launch,
        corpus=quality.corpus,
        server_command=command,
    )


def measure_quality(
    session: Session, quality: PlannedQuality, launch: int, server: Server, model: Path, root: Path
) -> QualityRecord:
    """Ask a server that is ready, and return the record.

    Args:
        session: whose server it is.
        quality: what to ask.
        launch: the number of the launch.
        server: is idle but for this.
        model: the checkpoint, which holds the tokenizer.
        root: the project's folder.

    Raises:
        ServerError: the server died or hangs while it was asked for documents.
    """
    record = blank_quality(session, quality, launch, server.command)
    record = record.model_copy(update={"started_at": now()})
    try:
        documents = _ask_all(session, quality, server, root)
    except UNUSABLE as error:
        server.confirm()
        tail = server.log_tail(LOG_TAIL_LINES)
        failed = {"reason": str(error), "log_tail": tail, "ended_at": now()}
        return record.model_copy(update=failed)
    record = record.model_copy(update={"status": "ok", "documents": documents})
    if quality.lm_eval:
        try:
            raw = raw_folder(session.study, quality.id, root)
            found = run_tasks(session, quality.lm_eval, raw, server, model, root)
            record = record.model_copy(update={"tasks": found})
        except HarnessError as error:
            record = record.model_copy(update={"tasks_failed": f"lm-eval: {error}"})
        except ServerError as error:
            record = record.model_copy(update={"tasks_failed": f"lm-eval: the server {error}"})
    return record.model_copy(update={"ended_at": now()})


def _ask_all(
    session: Session, quality: PlannedQuality, server: Server, root: Path
) -> list[Document]:
    rows = read_requests(root / "data" / "workloads" / f"{quality.corpus}.jsonl")
    wanted = quality.documents or len(rows)
    if wanted > len(rows):
        raise UserError(
            f"{quality.corpus}: has {len(rows)} documents, but quality.documents is {wanted}"
        )
    wait_idle(server.url)
    documents: list[Document] = []
    told = time.monotonic()
    headers = {"Authorization": f"Bearer {server.api_key}"}
    with httpx.Client(
        base_url=server.url, headers=headers, timeout=session.stall_timeout_s
    ) as client:
        for row in rows[:wanted]:
            documents.append(ask(client, server.name, row))
            if time.monotonic() - told > TELL_EVERY_S:
                told = time.monotonic()
                say(f"{session.variant}: quality: {len(documents)} of {wanted} documents")
    if not sum(document.tokens for document in documents):
        raise UserError(f"{quality.corpus}: no document has two tokens to score")
    return documents
