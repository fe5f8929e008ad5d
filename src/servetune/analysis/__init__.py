"""Pure functions over the tables: comparisons, later verdicts and findings."""
