"""Second moments of layers, and the decompositions computed once per layer."""
