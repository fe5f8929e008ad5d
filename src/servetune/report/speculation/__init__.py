"""Speculative decoding: acceptance, and whether it pays."""
