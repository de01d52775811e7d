"""Matplotlib figures of maps and experiment results."""
