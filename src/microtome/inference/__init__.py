"""Statistical inference on arrays: intervals, null distributions and permutation tests."""
