"""The rules that find something, one a module; `servetune.analysis.findings.gather` gathers them."""
