"""GuideLLM: its words for a load point, its data, and its report as replies.

Every load goes to GuideLLM as a file of conversations, one a line, whose turns are named by their
index in the schedule. An open loop is a replay of that file's arrivals, so that it sends what every
other generator sends. Its numbers are as it defines them: an answer ends with its stream, after
the usage. What it calls inter-token latency is TPOT here and in vLLM; it keeps no time of a chunk
between the first and the last, so that there is no ITL.
"""

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

from servetune.load.generator import CUT, NOT_SENT, Destination, Driver, Reply
from servetune.load.schedule import SCHEDULE, ScheduledRequest, read_schedule
from servetune.records.loads import Load
from servetune.sentences import sentence
from servetune.study.generators import PATHS

DATA = "guidellm-data.jsonl"
REPORT = "guidellm.json"

SETTINGS = {
    # Its workers are processes: more than the cores carry send late.
    "GUIDELLM__MAX_WORKER_PROCESSES": str(max(1, min(8, (os.cpu_count() or 1) // 4))),
    # It ends a load when nothing comes for so long after the last request is counted: at its own
    # 0.1 s the last answer is lost now and then.
    "GUIDELLM__MP_POLL_INTERVAL": "1",
    "GUIDELLM__LOGGING__CONSOLE_LOG_LEVEL": "WARNING",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
"""What a user of GuideLLM sets in its environment."""


def arguments(load: Load, destination: Destination) -> list[str]:
    """Write a load point as the words after `guidellm run`."""
    data = destination.schedule.with_name(DATA)
    words = [
        *("--backend", _words(_backend(load, destination))),
        *("--profile", _words(_profile(load))),
        *("--tokenizer", _words({"kind": "hf_auto", "model": destination.tokenizer})),
        # Streamed, or a copy of every load point would stay in the cache of `datasets`.
        *("--data", _words({"kind": "json_file", "path": data, "load_kwargs.streaming": True})),
        *("--seed", _words({"kind": "static", "value": load.seed})),
        # Prompts are in the schedule already, and would be the most of the report.
        *("--metrics", _words({"kind": "generative", "sample_size": 0})),
        *(
            "--output",
            _words({"kind": "json", "path": destination.raw / REPORT}),
            "--disable-console",
        ),
    ]
    if load.requests is not None:
        # Without it GuideLLM notices that the data ended only when it asks for more, and waits
        # for ever if the last reply came before that.
        count = load.requests + load.settle_requests + load.cooldown_requests
        words += ["--constraint", _words({"kind": "max_requests", "count": count})]
    if load.duration_s is not None:
        words += ["--constraint", _words({"kind": "max_duration", "seconds": load.duration_s})]
    return words


def _backend(load: Load, destination: Destination) -> dict[str, Any]:
    body = load.sampling.model_dump(exclude_none=True)
    if not load.ignore_eos:
        body["ignore_eos"] = False
    return {
        "kind": "openai_http",
        "target": destination.url,
        "model": destination.served_name,
        "request_format": PATHS[load.endpoint],
        # The server was found healthy before the load; each worker process would ask it again.
        "validate_backend": False,
        # A busy server may take longer to accept than the 5 s that GuideLLM gives it.
        "timeout_connect": None,
        **{f"extras.body.{name}": value for name, value in body.items()},
    }


def _profile(load: Load) -> dict[str, Any]:
    if load.is_open:
        return {"kind": "replay", "schedule_turn": "timestamp"}
    return {"kind": "concurrent", "streams": load.concurrency}


def _words(fields: dict[str, Any]) -> str:
    return ",".join(f"{name}={_scalar(value)}" for name, value in fields.items())


def _scalar(value: Any) -> str:
    """Write a value as GuideLLM reads it: YAML, to which 1e-05 is text and 1.0e-05 a number."""
    if not isinstance(value, bool | int | float | None):
        return str(value)
    text = json.dumps(value)
    is_whole = isinstance(value, float) and "." not in text
    return text.replace("e", ".0e") if is_whole else text


def write_data(requests: list[ScheduledRequest], schedule: Path) -> None:
    """Write requests as GuideLLM's data beside their schedule."""
    lines = []
    for number, turns in itertools.groupby(requests, key=lambda request: request.conversation):
        graph = {"graph_id": str(number), "turns": [_turn(request) for request in turns]}
        lines.append(json.dumps({"conversation_turns": json.dumps(graph)}) + "\n")
    schedule.with_name(DATA).write_text("".join(lines), encoding="utf-8")


def _turn(request: ScheduledRequest) -> dict[str, Any]:
    columns = {
        "text_column": [request.prompt],
        "output_tokens_count_column": [request.output_tokens],
    }
    turn: dict[str, Any] = {"node_id": str(request.index), "columns": columns}
    if request.turn:
        turn["parents"] = [{"parent_node_id": str(request.index - 1)}]
    elif request.arrival_s is not None:
        # A later turn has no time of its own: it follows the answer to the one before.
        turn["settings"] = {"relative_timestamp": request.arrival_s}
    return turn


def read(raw: Path) -> list[Reply]:
    """Read the report into replies; raises KeyError, ValueError or OSError if it is bad."""
    benchmark = json.loads((raw / REPORT).read_bytes())["benchmarks"][0]
    if lost := benchmark.get("scheduler_state", {}).get("processing_requests"):
        raise ValueError(f"guidellm ended before the answers to {lost} of its requests")
    requests = benchmark["requests"]
    # GuideLLM keeps the time of day; the telemetry, the monotonic clock.
    ahead_s = time.time() - time.monotonic()
    kinds = (requests[kind] or [] for kind in ("successful", "incomplete", "errored"))
    replies = [_reply(request, ahead_s) for request in itertools.chain(*kinds)]
    errored = [reply for reply in replies if reply.error and not reply.is_cut]
    return [*replies, *_never_sent(errored, raw)]


def _reply(request: dict[str, Any], ahead_s: float) -> Reply:
    info, times = request["info"], request["info"]["timings"]
    sent_s = times["request_start"] or times["resolve_start"]
    is_due = info["settings"]["relative_timestamp"] is not None
    is_cut = info["status"] == "cancelled"
    has_ended = info["status"] == "completed"
    later_tokens = (request["output_metrics"]["text_tokens"] or 0) - 1
    first_s, last_s = times["first_token_iteration"], times["last_token_iteration"]
    has_tokens = first_s is not None and last_s is not None
    return Reply(
        scheduled=int(info["node_id"]),
        error=CUT if is_cut else None if has_ended else sentence(info["error"] or info["status"]),
        sent_s=sent_s - ahead_s,
        due_s=times["targeted_start"] - ahead_s if is_due else None,
        input_tokens=request["input_metrics"]["text_tokens"] or 0,
        output_tokens=request["output_metrics"]["text_tokens"] or 0,
        cached_tokens=request["input_metrics"]["cached_tokens"],
        ttft_s=first_s - sent_s if has_tokens else None,
        e2e_s=(times["request_end"] or last_s) - sent_s if has_tokens else None,
        tpot_s=(last_s - first_s) / later_tokens if has_tokens and later_tokens > 0 else None,
        is_cut=is_cut,
    )


def _never_sent(errored: list[Reply], raw: Path) -> list[Reply]:
    """Tell the turns that GuideLLM gave up, without a word, because one before them failed."""
    if not errored:
        return []
    schedule = read_schedule(raw / SCHEDULE)
    failed = {schedule[reply.scheduled].conversation: reply for reply in errored}
    return [
        Reply(
            scheduled=request.index,
            error=NOT_SENT,
            sent_s=failed[request.conversation].sent_s,
        )
        for request in schedule
        if request.conversation in failed and request.index > failed[request.conversation].scheduled
    ]


DRIVER = Driver(
    client="servetune.load.others.runner",
    key_variable="GUIDELLM__SPEC__BACKEND__API_KEY",
    settings=SETTINGS,
    program=("-m", "guidellm", "run"),
    arguments=arguments,
    write_data=write_data,
    read=read,
)
