"""What is sampled while a server serves: its metrics, the GPUs, the processors."""
