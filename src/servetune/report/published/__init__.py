"""Numbers that others published."""
