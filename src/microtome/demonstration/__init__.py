"""The demonstration: small encoders taken apart from end to end, in a minute or two."""
