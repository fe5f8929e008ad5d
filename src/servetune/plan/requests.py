"""What is known of a dataset's requests before it is made: when they come, and how long they are.

Of a file only as far as a plan checks it: a larger one tells nothing here.
"""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from servetune.errors import UserError
from servetune.plan.planned import Trace
from servetune.plan.sessions import served_with
from servetune.study.datasets import (
    AgentsDataset,
    Dataset,
    FileDataset,
    RandomDataset,
    ShareGptDataset,
    TextDataset,
    TraceDataset,
    longest,
)
from servetune.study.opening import read_beginning
from servetune.study.rows import Row
from servetune.study.sources import Records, records_of
from servetune.study.study import Params, Study
from servetune.study.traces import per_second
from servetune.study.workloads import Workload


def trace_of(dataset: Dataset, root: Path) -> Trace | None:
    """Return how long a trace is; None of a dataset without times, and where it is not known."""
    if isinstance(dataset, TraceDataset):
        lines = read_records(dataset, root)
        times_s = [line["timestamp"] / per_second(dataset) for line in lines if "timestamp" in line]
        tokens = sum(line["input_length"] for line in lines)
    elif isinstance(dataset, FileDataset | AgentsDataset):
        lines = read_records(dataset, root)
        times_s = [line["arrival_s"] for line in lines if "arrival_s" in line]
        tokens = None
        if len(times_s) < len(lines):
            return None
    else:
        return None
    if not times_s:
        return None
    return Trace(lines=len(lines), span_s=max(times_s) - min(times_s), prompt_tokens=tokens)


def rows_of(dataset: FileDataset | AgentsDataset, root: Path) -> list[Row]:
    """Return the rows of a user's own file; none of one that is not read as a whole."""
    return [cast(Row, row) for row in read_records(dataset, root)]


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
    elif isinstance(dataset, TraceDataset):
        sizes = list(_sizes(read_records(dataset, root)))
        kept = [size for size in sizes if _is_sent(*size, workload)]
        prompt, answer = max(kept, key=sum, default=(1, 1))
    elif not isinstance(dataset, FileDataset | ShareGptDataset | AgentsDataset):
        answer = longest(dataset.output_tokens)
        if isinstance(dataset, TextDataset):
            of_classes = [kind.output_tokens for kind in dataset.classes.values()]
            answer = max([answer, *(longest(each) for each in of_classes if each)])
    return (
        min(prompt, workload.max_input_tokens or prompt),
        min(answer, workload.max_output_tokens or answer),
    )


def _sizes(lines: tuple[Any, ...]) -> Iterator[tuple[int, int]]:
    """Yield the tokens of each prompt, with the session before it, and of its answer."""
    before: Counter[str | None] = Counter()
    for line in lines:
        session, answer = line.get("session_id"), line["output_length"]
        prompt = before[session] + line["input_length"]
        if session is not None:
            before[session] = prompt + answer
        yield prompt, answer


def _is_sent(prompt: int, answer: int, workload: Workload) -> bool:
    if workload.over_length == "truncate":
        return True
    return prompt <= (workload.max_input_tokens or prompt) and answer <= (
        workload.max_output_tokens or answer
    )


def read_records(dataset: Records, root: Path) -> tuple[Any, ...]:
    """Return what the records of a file say; nothing of a file that is not read as a whole."""
    path = root / dataset.path
    return _read(dataset, path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(dataset: Records, path: Path, mtime_ns: int) -> tuple[Any, ...]:
    """Read a file once, though several workloads ask; another time is another file."""
    source = read_beginning(path, dataset.path)
    return tuple(records_of(dataset, source)) if source.is_whole else ()
