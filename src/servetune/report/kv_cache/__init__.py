"""The size of the KV cache."""
