"""The terms of the report."""
