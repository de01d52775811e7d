"""Declarations of the model families, one module each."""
