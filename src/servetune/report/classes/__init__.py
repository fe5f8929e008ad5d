"""Requests by class, and what their answers hold beside text."""
