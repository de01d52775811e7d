"""How do original files become examples? They are found, read as records, and shaped."""
