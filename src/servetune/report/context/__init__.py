"""TPOT over context."""
