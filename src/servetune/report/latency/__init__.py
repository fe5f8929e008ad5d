"""Distributions and percentiles of latency."""
