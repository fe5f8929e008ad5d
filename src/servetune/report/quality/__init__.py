"""What the variants answer: perplexity, agreement and tasks."""
