"""Sessions: serve a variant, send it every load point that is missing, record each."""
