"""Optimization of the parameters: the loop of updates, its order, its state on disk and its speed."""
