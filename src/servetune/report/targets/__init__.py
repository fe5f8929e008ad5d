"""Latency targets that the reader moves: goodput, and the highest measured load within them."""
