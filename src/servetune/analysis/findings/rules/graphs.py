"""Rules about the CUDA graphs that a server captured."""

import math

from servetune.analysis.findings.bounds import engine_sets_pace
from servetune.analysis.findings.busy import DISTURBING
from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.lockstep import is_in_lockstep
from servetune.analysis.roofline.attained import mean_prompt
from servetune.analysis.wording import ms, short
from servetune.numbers import whole

FULL = 2
"""vLLM's `CUDAGraphMode.FULL`: a step is one graph, attention included."""

GAIN = 1.06
"""What 28 clients on an H200 gained (gallery/results/h200-aa: `seqs-28` beside `base`)."""

SLOW = 1.6
"""How many times as long as the roofline allows a step with prompts takes in a CUDA graph, at most.

From gallery/results/h200-cuda-graphs: `to-2048`.
"""

LARGER = 4
"""How many times larger the graphs are made at most: prompts that need more keep a GPU busy."""

MOST_WITH_PROMPTS = 0.5
"""Share of the steps that read prompts up to which the median ITL is that of the others."""


@rule
def batch_beyond_full_graphs(case: Case) -> Finding | None:
    """More requests decode at once than a full CUDA graph holds: attention at least runs outside.

    vLLM captures steps of decode for those `cudagraph_capture_sizes`, in tokens, that
    `max_num_seqs` requests can fill (its vllm/v1/worker/gpu/cudagraph_utils.py).
    """
    running, max_num_seqs = case.value("running_mean"), case.value("max_num_seqs")
    config = case.launch.config("compilation_config") if case.launch else {}
    mode, sizes = config.get("cudagraph_mode"), case.launch.graph_tokens if case.launch else []
    if not case.has_numbers or running is None or not max_num_seqs or not sizes:
        return None
    if not isinstance(mode, list) or mode[:1] != [FULL]:
        return None
    tokens = 1 + int(case.value("num_speculative_tokens") or 0)
    filled = sorted({-(-size // tokens) for size in sizes})
    requests = [count for count in filled if count * tokens <= max(sizes)]
    captured = max((each for each in requests if each <= max_num_seqs), default=0)
    if running <= captured:
        return None
    above = next((each for each in requests if each > captured), None)
    peak = int(case.value("running_max") or max_num_seqs)
    return Finding(
        title="More requests decode at once than a full CUDA graph holds.",
        evidence=(
            ("running, on average", short(running)),
            ("largest full graph", f"{whole(captured)} requests"),
            ("max_num_seqs", whole(max_num_seqs)),
            *([("tokens a request and step", whole(tokens))] if tokens > 1 else []),
        ),
        attempts=(
            f"set max_num_seqs to a size that is captured, {whole(captured)} or {whole(above)}"
            if above
            else f"raise compilation_config.max_cudagraph_capture_size to {whole(peak * tokens)}",
        ),
        gain=GAIN,
        chart="throughput",
    )


@rule
def prompts_beyond_graphs(case: Case) -> Finding | None:
    """Steps that read a prompt are larger than any CUDA graph, and far slower than the device is.

    The host then launches their kernels one by one. Prompts join the steps as by a Poisson process,
    and a step without one takes the median ITL; speculation emits more than one token a step.
    """
    config = case.launch.config("compilation_config") if case.launch else {}
    sizes, running = case.launch.graph_tokens if case.launch else [], case.value("running_mean")
    rate_rps, mean_ms = case.value("request_throughput_rps"), case.value("itl_mean_ms")
    plain_ms, prompt = case.value("itl_p50_ms"), mean_prompt(case.row)
    of_prompt = case.attained.prefill if case.attained else None
    if not case.has_numbers or not sizes or not of_prompt or case.value("num_speculative_tokens"):
        return None
    if case.engines > 1 or not running or not rate_rps or not mean_ms or not plain_ms or not prompt:
        return None
    mode = config.get("cudagraph_mode")
    if not (mode[-1] if isinstance(mode, list) and mode else mode):
        return None  # steps with prompts run in no graph, whatever their size
    largest, (computed, _) = max(sizes), prompt
    joining = rate_rps * mean_ms / 1e3
    share = -math.expm1(-joining)
    most = case.value("max_num_batched_tokens") or math.inf
    tokens = min(most, computed + running)
    wanted = min(most, 2 ** math.ceil(math.log2(2 * computed + running)))
    if tokens <= largest or wanted > LARGER * largest or share > MOST_WITH_PROMPTS:
        return None
    if not engine_sets_pace(case) or is_in_lockstep(case.row) or case.broken & DISTURBING:
        return None
    step_ms = plain_ms + (mean_ms - plain_ms) / share
    least_ms = joining / share * 1e3 * of_prompt.least_s
    if step_ms <= SLOW * least_ms:
        return None
    return Finding(
        title="Steps that read prompts are larger than the largest CUDA graph.",
        evidence=(
            ("tokens of such a step", whole(tokens)),
            ("largest graph", f"{whole(largest)} tokens"),
            ("such a step", f"{ms(step_ms)}, {ms(least_ms)} by the roofline"),
            ("a step without prompts", ms(plain_ms)),
        ),
        attempts=(f"raise compilation_config.max_cudagraph_capture_size to {whole(wanted)}",),
        gain=mean_ms / (mean_ms - share * (step_ms - SLOW * least_ms)),
        chart="throughput",
    )
