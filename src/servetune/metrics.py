"""The latencies of a request and what is kept of them: names alone, for every module."""

LATENCIES = ("ttft", "tpot", "itl", "e2e")
"""TTFT, TPOT, ITL and E2E latency; `docs/methodology.md` holds their definitions."""

PERCENTILES = (50, 90, 95, 99)

QUANTILE_PROBABILITIES = tuple(i / 100 for i in range(101))
"""Where a record keeps the quantiles of each latency, so that a report can draw distributions."""
