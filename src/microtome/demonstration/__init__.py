"""The demonstration: small encoders taken apart from end to end, in a few minutes."""
