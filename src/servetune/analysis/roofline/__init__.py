"""Rooflines: the work of prefill and decode, what a load attained, what speculation can buy."""
