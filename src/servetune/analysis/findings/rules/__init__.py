"""The rules that find something, by subject; `analysis.findings.gather` gathers them."""
