"""Tasks: their data in its original form, and their scores."""
