"""What the server told over time."""
