"""What answers at an address, and how many clients it serves: without a study, in a minute."""
