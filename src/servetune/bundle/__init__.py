"""A study's sessions as one file, for a measuring host without network, Git or this project."""
