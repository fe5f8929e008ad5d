"""Pure functions over the tables: comparisons, verdicts, rooflines and findings."""
