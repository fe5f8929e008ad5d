"""Clients that left before the end of their answers."""
