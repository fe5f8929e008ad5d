"""The highest load that meets an SLO, found with few requests; the method: docs/capacity.md."""
