"""From the records of a plan to tidy tables."""
