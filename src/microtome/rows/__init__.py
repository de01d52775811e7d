"""Alignment of rows with words, tokens and examples across models."""
