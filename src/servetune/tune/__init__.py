"""Tuning: which of many ways to serve is best, found by a race."""
