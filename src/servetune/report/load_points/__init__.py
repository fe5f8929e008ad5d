"""Every load point: verdicts, what the repeats can show, ratios, and the variants side by side."""
