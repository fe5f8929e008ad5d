"""The terms of the report."""

from servetune.analysis.wording import TIMES, plural
from servetune.report.measured import Measured
from servetune.report.section import Section

TERMS = {
    "TTFT": "time to first token: from sending a request to its first token, queueing included",
    "TPOT": "time per output token: the rest of a request, divided by its tokens after the first",
    "ITL": "inter-token latency: the gap between streamed chunks, several tokens with speculation",
    "E2E": "end-to-end latency: from sending a request to its last token",
    "p50, p99": "percentiles over requests; with fewer than 100 requests p99 is near the maximum",
    "output tok/s": "output throughput: tokens generated per second, over all requests in flight",
    "load point": (
        "c8: eight requests in flight (closed loop); r2.5: 2.5 requests/s, or conversations/s"
        " (open loop); c8-r2.5: that rate, at most eight in flight; rinf: a batch, all at once;"
        " t1: a trace as recorded"
    ),
    "ratio": f"variant / baseline: of a latency 0.84{TIMES} is faster, of a throughput 1.2{TIMES}",
    "acceptance length": (
        "tokens emitted per verification step of speculative decoding: 1 is no gain at all"
    ),
    "acceptance ratio": "accepted over drafted tokens; by position: of the 1st, 2nd … draft token",
    "prefix-cache hits": (
        "share of the prompt tokens whose KV cache was there already, so that prefill skipped them"
    ),
    "capacity": "the highest load that meets an SLO, by a search; a probe is one load of it",
    "SLO attainment": "share of the requests, failed ones included, within all limits of an SLO",
    "turn": "a prompt and its answer in a conversation; each prompt repeats the turns before it",
    "perplexity": (
        "how unsure a model is of a text: that of a uniform guess among so many tokens; 1 is never"
    ),
    "top-1 agreement": (
        "share of positions of a text where both variants hold the same token to be most likely"
    ),
    "front end": (
        "what a request takes beyond the engine's queue, prefill and decode: the API server,"
        " and all between it and the client's clock"
    ),
    "lockstep": "clients of a closed loop that send together, as all of their answers end together",
    "send delay": "how long after its due time the load generator sent a request",
    "invalid": "measured, but a validity rule is broken: it enters no average and no ratio",
}


def section(measured: Measured) -> Section:
    """Make the section."""
    return Section("glossary", "Glossary", TERMS, counts=plural(len(TERMS), "term"))
