"""A tuning: its answer, and the race that led to it."""
