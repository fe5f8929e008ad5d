"""The rules that find something, one a module; `servetune.insight.findings` gathers them."""
