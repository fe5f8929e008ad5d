"""The quality guard: what a variant answers on one corpus."""
