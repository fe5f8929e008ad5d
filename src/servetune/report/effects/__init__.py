"""Effects and interactions of a factorial."""
