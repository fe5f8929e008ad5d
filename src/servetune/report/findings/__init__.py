"""Why the numbers are as they are, and what to try."""
