"""Probing experiments: annotation of words, spans and trees, description length, and answers of tasks."""
