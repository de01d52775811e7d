"""Stacks of layers in, maps with certainty out."""
