"""The answer of a tuning, and what each setting changes."""
