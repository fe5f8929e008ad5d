"""What a server would do at loads and settings that were not measured: simulated, and fitted."""
