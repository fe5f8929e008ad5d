"""Code of the load clients, which runs in an engine's or a generator's environment."""
