"""What is known of a dataset's requests before it is made: when they come, and how long they are.

Of a file only as far as a plan checks it: a larger one tells nothing here.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from servetune.errors import UserError
from servetune.load.rows import Row
from servetune.plan.planned import Trace
from servetune.plan.sessions import served_with
from servetune.study.datasets import (
    Dataset,
    FileDataset,
    MooncakeDataset,
    RandomDataset,
    ShareGptDataset,
    longest,
)
from servetune.study.requests import request_lines
from servetune.study.sources import read_beginning
from servetune.study.study import Params, Study
from servetune.study.traces import PER_SECOND, trace_lines
from servetune.study.workloads import Workload


def trace_of(dataset: Dataset, root: Path) -> Trace | None:
    """Return how long a trace is; None of a dataset without times, and where it is not known."""
    if not isinstance(dataset, FileDataset | MooncakeDataset):
        return None
    lines = _lines(dataset, root)
    if isinstance(dataset, MooncakeDataset):
        times_s = [line["timestamp"] / PER_SECOND[dataset.time_unit] for line in lines]
        tokens = sum(line["input_length"] for line in lines)
    else:
        times_s = [line["arrival_s"] for line in lines if line.get("arrival_s") is not None]
        tokens = None
    if not times_s or len(times_s) < len(lines):
        return None
    return Trace(lines=len(lines), span_s=max(times_s) - min(times_s), prompt_tokens=tokens)


def rows_of(dataset: FileDataset, root: Path) -> list[Row]:
    """Return the rows of a user's own file; none of one that is not read as a whole."""
    return [cast(Row, line) for line in _lines(dataset, root)]


def check_lengths(params: Params, study: Study, names: list[str], root: Path) -> None:
    """Check that servers take the longest requests whose tokens are known.

    Raises:
        UserError: the first workload of which a variant's `max_model_len` is too small.
    """
    for name in names:
        variant = study.variants[name]
        most = served_with(study, variant, params).get("max_model_len")
        if not isinstance(most, int) or most < 1:
            continue
        for key in variant.workloads or study.workloads:
            workload = study.workloads[key]
            prompt, answer = longest_request(study.datasets[workload.dataset], workload, root)
            if prompt + answer > most:
                raise UserError(
                    f"studies/{params.study}.yaml: workloads.{key}: a request of"
                    f" {workload.dataset} has {prompt:,} tokens and an answer of {answer:,}, but"
                    f" max_model_len of {name} is {most:,}; raise it to {prompt + answer}, or leave"
                    " such requests out with max_input_tokens and max_output_tokens"
                )


def longest_request(dataset: Dataset, workload: Workload, root: Path) -> tuple[int, int]:
    """Return the tokens of a prompt and its answer, of the longest that may be sent.

    At least: text has as many tokens as the model's tokenizer says, and counts as one.
    """
    prompt, answer = 1, 1
    if isinstance(dataset, RandomDataset):
        prefix = longest(dataset.shared_prefix.tokens) if dataset.shared_prefix else 0
        prompt, answer = prefix + longest(dataset.input_tokens), longest(dataset.output_tokens)
    elif isinstance(dataset, MooncakeDataset):
        sizes = [(line["input_length"], line["output_length"]) for line in _lines(dataset, root)]
        kept = [size for size in sizes if _is_sent(*size, workload)]
        prompt, answer = max(kept, key=sum, default=(1, 1))
    elif not isinstance(dataset, FileDataset | ShareGptDataset):
        answer = longest(dataset.output_tokens)
    return (
        min(prompt, workload.max_input_tokens or prompt),
        min(answer, workload.max_output_tokens or answer),
    )


def _is_sent(prompt: int, answer: int, workload: Workload) -> bool:
    if workload.over_length == "truncate":
        return True
    return prompt <= (workload.max_input_tokens or prompt) and answer <= (
        workload.max_output_tokens or answer
    )


def _lines(dataset: FileDataset | MooncakeDataset, root: Path) -> tuple[dict[str, Any], ...]:
    """Return the lines of a file that are taken; none of a file that is not read as a whole."""
    path = root / dataset.path
    lines = _read(dataset, path, path.stat().st_mtime_ns)
    return lines if isinstance(dataset, FileDataset) else lines[: dataset.requests]


@lru_cache(maxsize=8)
def _read(
    dataset: FileDataset | MooncakeDataset, path: Path, mtime_ns: int
) -> tuple[dict[str, Any], ...]:
    """Read a file once, though several workloads ask; another time is another file."""
    text, is_whole = read_beginning(path, dataset.path)
    if not is_whole:
        return ()
    rows = (
        trace_lines(dataset, text)
        if isinstance(dataset, MooncakeDataset)
        else request_lines(dataset, text)
    )
    return tuple(row for _, row in rows)
