"""What the servers of the variants resolved differently."""
