"""GuideLLM: its words, its report, and its client in an environment of its own."""
