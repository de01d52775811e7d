"""Experiments that change a model: truncate, skip, freeze, re-initialize, permute and drop blocks."""
