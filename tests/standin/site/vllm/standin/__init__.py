"""The model of a serving engine and its HTTP face."""
