"""A schedule as the data that GuideLLM reads: one conversation a line, a prompt being one too."""

import itertools
import json
from pathlib import Path
from typing import Any

from servetune.load.schedule import ScheduledRequest

DATA = "guidellm-data.jsonl"


def data_path(schedule: Path) -> Path:
    """Return where the data of a schedule stands: beside it."""
    return schedule.with_name(DATA)


def write_data(requests: list[ScheduledRequest], path: Path) -> int:
    """Write a schedule as GuideLLM's data and return its number of conversations.

    Raises:
        ValueError: a prompt is token ids.
    """
    lines = []
    for number, turns in itertools.groupby(requests, key=lambda each: each.conversation):
        graph = {"graph_id": str(number), "turns": _turns(list(turns))}
        lines.append(json.dumps({"conversation_turns": json.dumps(graph)}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _turns(requests: list[ScheduledRequest]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for request in requests:
        if not isinstance(request.prompt, str):
            raise ValueError(
                f"guidellm sends text, and request {request.index} is token ids;"
                " vllm-bench sends both"
            )
        columns = {
            "text_column": [request.prompt],
            "output_tokens_count_column": [request.output_tokens],
        }
        turn: dict[str, Any] = {"node_id": str(request.index), "columns": columns}
        if turns:
            turn["parents"] = [{"parent_node_id": turns[-1]["node_id"]}]
        elif request.arrival_s is not None:
            # A later turn has no time of its own: it follows the answer to the one before.
            turn["settings"] = {"relative_timestamp": request.arrival_s}
        turns.append(turn)
    return turns
