"""What a stranger sees first: small encoders taken apart from end to end, in a few minutes."""
