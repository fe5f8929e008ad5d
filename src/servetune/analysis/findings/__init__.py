"""Findings: why a load point is as fast as it is, from tables alone."""
