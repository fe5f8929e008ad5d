"""servetune: a declarative, reproducible pipeline that tunes and benchmarks vLLM."""
