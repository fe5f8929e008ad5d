"""What was achieved of what the device allows."""
