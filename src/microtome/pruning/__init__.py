"""Pruning of blocks within a margin: choice, certificate and export."""
