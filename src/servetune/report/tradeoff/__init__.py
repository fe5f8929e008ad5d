"""Throughput against latency."""
