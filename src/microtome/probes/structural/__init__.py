"""Structural probes (Hewitt and Manning 2019)."""
