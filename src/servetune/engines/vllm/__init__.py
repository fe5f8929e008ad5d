"""What is particular to vLLM: its arguments, metrics, log, and causes of an end."""
