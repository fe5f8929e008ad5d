"""What was asked and what answered."""
