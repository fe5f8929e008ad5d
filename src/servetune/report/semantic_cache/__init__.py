"""A cache of answers before the server: what it saves, and what it answers wrongly."""
