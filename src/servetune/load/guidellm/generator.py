"""GuideLLM: its words for a load point, its data, and its report as replies.

Every load goes to GuideLLM as a file of conversations, one a line, whose turns are named by their
index in the schedule. An open loop is a replay of that file's arrivals, so that
it sends what every other generator sends. What GuideLLM calls inter-token latency is TPOT here and
in vLLM; the times of chunks come from `servetune.load.guidellm.parts`.
"""

import itertools
import json
from pathlib import Path
from typing import Any

from servetune.load.generator import CUT, NOT_SENT, PATHS, Generator, Reply, Target
from servetune.load.schedule import SCHEDULE, ScheduledRequest, read_schedule
from servetune.load.stream import Note
from servetune.records.loads import Load
from servetune.study.workloads import LoadPoint, Workload

DATA = "guidellm-data.jsonl"
REPORT = "guidellm.json"


def arguments(load: Load, target: Target) -> list[str]:
    """Write a load point as the words after `guidellm run`."""
    data = target.schedule.with_name(DATA)
    words = [
        *("--backend", _words(_backend(load, target))),
        *("--profile", _words(_profile(load))),
        *("--tokenizer", _words({"kind": "hf_auto", "model": target.tokenizer})),
        # Streamed, or a copy of every load point would stay in the cache of `datasets`.
        *("--data", _words({"kind": "json_file", "path": data, "load_kwargs.streaming": True})),
        *("--seed", _words({"kind": "static", "value": load.seed})),
        # Prompts are in the schedule already, and would be the most of the report.
        *("--metrics", _words({"kind": "generative", "sample_size": 0})),
        *("--output", _words({"kind": "json", "path": target.raw / REPORT}), "--disable-console"),
    ]
    if load.duration_s is not None:
        words += ["--constraint", _words({"kind": "max_duration", "seconds": load.duration_s})]
    return words


def _backend(load: Load, target: Target) -> dict[str, Any]:
    body = load.sampling.model_dump(exclude_none=True)
    if not load.ignore_eos:
        body["ignore_eos"] = False
    return {
        "kind": "openai_http",
        "target": target.url,
        "model": target.served_name,
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
    closed = {"kind": "concurrent", "streams": load.concurrency}
    return {**closed, "rampup_duration": load.ramp_up_s} if load.ramp_up_s else closed


def _words(fields: dict[str, Any]) -> str:
    return ",".join(f"{name}={_scalar(value)}" for name, value in fields.items())


def _scalar(value: Any) -> str:
    """Write a value as GuideLLM reads it: YAML, to which 1e-05 is text and 1.0e-05 a number."""
    if not isinstance(value, bool | int | float | None):
        return str(value)
    text = json.dumps(value)
    is_whole = isinstance(value, float) and "." not in text
    return text.replace("e", ".0e") if is_whole else text


def write_data(requests: list[ScheduledRequest], schedule: Path) -> int:
    """Write requests as GuideLLM's data beside their schedule; returns how many conversations."""
    lines = []
    for number, turns in itertools.groupby(requests, key=lambda request: request.conversation):
        graph = {"graph_id": str(number), "turns": [_turn(request) for request in turns]}
        lines.append(json.dumps({"conversation_turns": json.dumps(graph)}) + "\n")
    schedule.with_name(DATA).write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _turn(request: ScheduledRequest) -> dict[str, Any]:
    if not isinstance(request.prompt, str):
        raise ValueError(
            f"guidellm sends text, and request {request.index} is token ids; vllm-bench sends both"
        )
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
    errored = [_reply(request) for request in requests["errored"]]
    answered = [_reply(request) for request in [*requests["successful"], *requests["incomplete"]]]
    return [*answered, *errored, *_never_sent(errored, raw)]


def _reply(request: dict[str, Any]) -> Reply:
    info, times = request["info"], request["info"]["timings"]
    sent_s = times["request_start"] or times["resolve_start"]
    is_due = info["settings"]["relative_timestamp"] is not None
    told: dict[str, Any] = request["response_metrics"] or {}
    chunks: list[float] = told.get("text_times", [])
    note = Note(**told.get("note", {}))
    is_cut = info["status"] == "cancelled"
    has_ended = info["status"] == "completed"
    error = note.fault() if has_ended else info["error"] or info["status"]
    return Reply(
        scheduled=int(info["node_id"]),
        error=CUT if is_cut else error,
        sent_s=sent_s,
        due_s=times["targeted_start"] if is_due else None,
        input_tokens=request["input_metrics"]["text_tokens"] or 0,
        output_tokens=request["output_metrics"]["text_tokens"] or 0,
        cached_tokens=request["input_metrics"]["cached_tokens"],
        ttft_s=chunks[0] - sent_s if chunks else None,
        e2e_s=chunks[-1] - sent_s if chunks else None,
        itl_s=[later - earlier for earlier, later in itertools.pairwise(chunks)],
        is_cut=is_cut,
        has_usage=note.has_usage,
        model=note.model,
        text=note.text_with(told.get("text")),
        textless_tokens=note.textless_tokens,
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


def refuses(workload: Workload, point: LoadPoint, is_token_ids: bool) -> str | None:
    """Say why GuideLLM cannot do a load, and which generator can."""
    if is_token_ids:
        return "guidellm sends text, not token ids; vllm-bench sends both"
    tiers = workload.capacity.slo.values() if workload.capacity else ()
    if any("itl" in objective.limits_ms for slo in tiers for objective in slo.objectives):
        return "guidellm cannot stop a probe on ITL; use vllm-bench, or limit TPOT"
    if point.is_open and point.concurrency is not None:
        return "guidellm cannot limit the concurrency of an open loop; vllm-bench can"
    return None


GUIDELLM = Generator(
    name="guidellm",
    environment="guidellm",
    client="servetune.load.guidellm.client",
    key_variable="GUIDELLM__SPEC__BACKEND__API_KEY",
    command=("guidellm", "run"),
    arguments=arguments,
    read=read,
    refuses=refuses,
)
