"""Programs that make checkpoints; each runs in an environment of its own."""
