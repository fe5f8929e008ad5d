"""The rules that find something, one a module; `analysis.findings.gather` gathers them."""
