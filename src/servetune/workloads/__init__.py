"""Request datasets: what the clients send."""
