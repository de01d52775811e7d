"""Encoders: loading, families, tokenizers, and models as stacks of layers."""
