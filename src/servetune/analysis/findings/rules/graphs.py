"""Rules about the CUDA graphs that a server captured."""

from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.wording import short, whole

FULL = 2
"""vLLM's `CUDAGraphMode.FULL`: a step is one graph, attention included."""

GAIN = 1.06
"""What 28 clients on an H200 gained (results/h200-aa: `seqs-28` beside `base`)."""


@rule
def batch_beyond_full_graphs(case: Case) -> Finding | None:
    """More requests decode at once than a full CUDA graph holds: attention at least runs outside.

    vLLM captures steps of decode for those `cudagraph_capture_sizes`, in tokens, that
    `max_num_seqs` requests can fill (its vllm/v1/worker/gpu/cudagraph_utils.py).
    """
    running, max_num_seqs = case.value("running_mean"), case.value("max_num_seqs")
    config = case.launch.config("compilation_config") if case.launch else {}
    mode, sizes = config.get("cudagraph_mode"), config.get("cudagraph_capture_sizes")
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
