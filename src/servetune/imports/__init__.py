"""Result files of other tools, as rows with the metrics and units of our own tables."""
