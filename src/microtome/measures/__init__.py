"""How close two layers are: one module an idea, and the table of all measures."""
