"""Similarity measures of layers, one module per family of measures, and the table of all measures."""
