"""Probing of layers: linear, edge, structural and minimum-description-length probes."""
