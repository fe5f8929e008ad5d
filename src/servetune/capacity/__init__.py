"""The highest load that meets an SLO, with an interval that holds it: docs/capacity-method.md."""
