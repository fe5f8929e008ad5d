"""The capacity within the SLO."""
