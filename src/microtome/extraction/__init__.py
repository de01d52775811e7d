"""Extraction of the hidden states of all layers as rows, in one pass over the corpus."""
