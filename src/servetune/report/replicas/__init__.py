"""Replicas behind a gateway: what each did, what the gateway did and cost, and deaths."""
