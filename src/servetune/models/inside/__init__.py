"""Programs that make checkpoints; each runs in the environment `llmcompressor`."""
