"""Engines and tools: pinned environments, how they are built, and what they take."""
