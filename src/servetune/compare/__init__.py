"""This revision against another one, as a reviewer needs it."""
