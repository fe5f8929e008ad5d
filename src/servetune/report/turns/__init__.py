"""Conversations by turn."""
