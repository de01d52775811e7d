"""Comparison of layer stacks: similarity maps with intervals and permutation tests."""
