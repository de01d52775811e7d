"""Scores of tasks: accuracy, F1, correlations and others, with the parts that their intervals need."""
