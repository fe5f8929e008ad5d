"""servetune's own load generator: its words and results, and its client."""
