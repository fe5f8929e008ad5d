"""Launches until decided: which variants a study launches again, by the verdicts so far."""
