"""Experiments on what training changes: layers, domains, tuning methods, localization, trajectories."""
