"""The quality guard: a variant's answers against the baseline's, on one corpus."""
