"""`vllm bench serve`: its words, its results, and its client in the engine's environment."""
