"""One `vllm serve`: its life, its start, and what its device can do."""
