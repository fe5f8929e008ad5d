"""Offline batches."""
