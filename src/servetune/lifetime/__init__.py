"""Processes that do not outlive whoever asked for them."""
