"""Servers that are started, asked and stopped, whatever is sent to them."""
