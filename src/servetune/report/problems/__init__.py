"""Failed and invalid measurements."""
