"""Where the start of a server goes."""
