"""The validity card of every measurement."""
