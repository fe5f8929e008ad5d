"""Whether load generators that sent the same load measured the same."""
