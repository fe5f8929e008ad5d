"""Which tool wrote a file, and what it says: the one door to result files of others."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from servetune.errors import UserError
from servetune.files import read_given
from servetune.imports import aiperf, guidellm, inference_perf, llmd, vllm_bench
from servetune.imports.run import Run

KNOWN = (
    "vllm bench serve (JSON), GuideLLM (JSON), AIPerf (profile_export_aiperf.json or .csv,"
    " profile_export.jsonl), inference-perf (*_lifecycle_metrics.json), llm-d's benchmark report"
    " (YAML or JSON)"
)

_MOST_BYTES = 512 * 1024**2
"""Of a file, which takes some five times that in memory: 100,000 requests with every gap."""

_MOST_YAML = 4 * 1024**2
"""Characters of a report in YAML, which is read slowly: larger ones come as JSON. A judgement."""


class _Format(NamedTuple):
    tool: str
    is_one: Callable[[Any], bool]
    read: Callable[[Any, str], list[Run]]


_FORMATS = (
    _Format(aiperf.TOOL, aiperf.is_export, aiperf.read),
    _Format(guidellm.TOOL, guidellm.is_report, guidellm.read),
    _Format(inference_perf.TOOL, inference_perf.is_report, inference_perf.read),
    _Format(llmd.TOOL, llmd.is_report, llmd.read),
    _Format(vllm_bench.TOOL, vllm_bench.is_result, vllm_bench.read),
    _Format(
        f"one request of {aiperf.TOOL}",
        aiperf.is_record,
        lambda content, file: aiperf.read_records([content], file),
    ),
)


def read_results(path: Path) -> list[Run]:
    """Read a result file of another tool: a run a load point.

    Raises:
        UserError: there is no such file, it is empty, cut off or damaged, or of no format that is
            known; the message names the file.
    """
    name = str(path)
    text = read_given(path, name, _MOST_BYTES)
    if not text.strip():
        raise UserError(f"{name}: is empty; expected a result of {KNOWN}")
    if path.suffix.lower() == ".csv":
        if not aiperf.is_csv(text):
            raise UserError(f"{name}: a CSV that is not {aiperf.TOOL}'s; expected one of {KNOWN}")
        return _checked(lambda: aiperf.read_csv(text, name), aiperf.TOOL, name)
    if path.suffix.lower() in (".yaml", ".yml"):
        return _read(_yaml(text, name), name)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _read_lines(text, name, error)
    return _read(content, name)


def _yaml(text: str, name: str) -> Any:
    # Reports of llm-d hold dates, which no study may.
    if len(text) > _MOST_YAML:
        raise UserError(f"{name}: is too large for YAML; save it as JSON")
    try:
        return yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(
            f"{name}: cut off, damaged or no YAML ({_first_line(error)}); expected a result of"
            f" {KNOWN}"
        ) from None


def _read_lines(text: str, name: str, error: Exception) -> list[Run]:
    """Read a line a request (AIPerf), or a line a result (`vllm bench serve --append-result`)."""
    contents = []
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            contents.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == 1:
                raise UserError(
                    f"{name}: cut off, damaged or no JSON ({_first_line(error)}); expected a"
                    f" result of {KNOWN}"
                ) from None
            raise UserError(
                f"{name}: line {number} of {len(lines)} is cut off or damaged; expected JSON in"
                f" every line, as {aiperf.TOOL} writes it"
            ) from None
    if all(map(aiperf.is_record, contents)):
        return _checked(lambda: aiperf.read_records(contents, name), aiperf.TOOL, name)
    return [run for content in contents for run in _read(content, name)]


def _read(content: Any, name: str) -> list[Run]:
    for kind in _FORMATS:
        if kind.is_one(content):
            return _checked(partial(kind.read, content, name), kind.tool, name)
    raise UserError(f"{name}: not a result file that is known; expected one of {KNOWN}")


def _checked(read: Callable[[], list[Run]], tool: str, name: str) -> list[Run]:
    try:
        return read()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = f"{place}: {first['msg']}"
    except (ValueError, TypeError, OverflowError, OSError) as error:
        why = _first_line(error)
    raise UserError(
        f"{name}: damaged, or of a version that is not known: it looks like a result of {tool},"
        f" but {why}; known are {KNOWN}"
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
