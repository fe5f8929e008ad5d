"""Variants as something to run elsewhere: a command, a container, a service of a cluster."""
