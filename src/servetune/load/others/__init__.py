"""Load generators of others, run as their users run them."""
