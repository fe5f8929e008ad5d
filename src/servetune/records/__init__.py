"""What is written down: records of measurements, searches, sessions and quality."""
