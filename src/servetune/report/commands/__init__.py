"""The commands behind each row."""
