"""The figures of a simulated load, by the definitions that recorded ones have."""

import numpy as np
import pandas as pd

from servetune.load.throughput import closed_loop_throughput
from servetune.predict.server import Floats, Served
from servetune.records.measurements import ThroughputWindow


def figures_of(
    served: Served, counted: int, clients: int | None = None, window: ThroughputWindow | None = None
) -> dict[str, float]:
    """Return the figures of the first requests of a simulated load, named as recorded ones are.

    The throughput is that of the whole load, or of a closed loop of so many clients as
    `closed_loop_throughput` has it.
    """
    ttft_ms, tpot_ms = served.ttft_ms[:counted], served.tpot_ms[:counted]
    emitted = np.maximum(served.output_tokens - 1, 1)
    engine_ms = 1e3 * (served.engine_finish_s - served.engine_first_s) / emitted
    queue_ms = 1e3 * (served.scheduled_s - served.queued_s)[:counted]
    prefill_ms = 1e3 * (served.engine_first_s - served.scheduled_s)[:counted]
    return {
        "output_throughput_tok_s": _throughput(served, counted, clients, window),
        "itl_p50_ms": 1e3 * _weighted_median(served.gaps_s, served.gap_weights),
        "server_tpot_mean_ms": float(engine_ms[:counted].mean()),
        "tpot_p50_ms": float(np.median(tpot_ms)),
        "tpot_p99_ms": float(np.quantile(tpot_ms, 0.99)),
        "tpot_mean_ms": float(tpot_ms.mean()),
        "ttft_mean_ms": float(ttft_ms.mean()),
        "ttft_p50_ms": float(np.median(ttft_ms)),
        "ttft_p99_ms": float(np.quantile(ttft_ms, 0.99)),
        "front_end_mean_ms": float((ttft_ms - queue_ms - prefill_ms).mean()),
        "prefill_time_mean_ms": float(prefill_ms.mean()),
    }


def _throughput(
    served: Served, counted: int, clients: int | None, window: ThroughputWindow | None
) -> float:
    if clients is None or window == "whole load":
        duration_s = served.finish_s[:counted].max() - served.sent_s[:counted].min()
        return float(served.output_tokens[:counted].sum() / duration_s)
    answered = pd.DataFrame(
        {
            "is_counted": np.arange(len(served.sent_s)) < counted,
            "is_ok": True,
            "error": None,
            "turn": 0,
            "start_s": served.sent_s,
            "output_tokens": served.output_tokens,
            "ttft_ms": served.ttft_ms,
            "tpot_ms": served.tpot_ms,
            "e2e_ms": 1e3 * (served.finish_s - served.sent_s),
            "itl_ms": [[]] * len(served.sent_s),
        }
    )
    return closed_loop_throughput(answered, clients, window).output_tok_s


def _weighted_median(values: Floats, weights: Floats) -> float:
    if not len(values):
        return 0.0
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
