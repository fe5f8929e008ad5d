"""servetune's own load client: its words and results, its pacing, and its streams."""
