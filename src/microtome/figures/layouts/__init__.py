"""Figures of studies in the layouts of the papers, and tables of their results."""
