"""A metric over the commits that measured it."""
