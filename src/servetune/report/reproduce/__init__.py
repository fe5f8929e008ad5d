"""How to measure it again."""
