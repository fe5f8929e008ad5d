"""A project's folder of its own, beside no code: what `servetune init` and `upgrade` write."""
