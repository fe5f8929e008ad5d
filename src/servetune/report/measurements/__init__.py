"""All measurements."""
