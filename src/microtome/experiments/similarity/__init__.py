"""Similarity of layers: comparison of models, similarity matrices, and extraction of rows."""
