"""Load generators: one file each, behind the interface in `generator`."""
