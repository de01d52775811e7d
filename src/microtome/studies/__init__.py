"""Studies: models, tasks and experiments of a paper as one file, and what they found."""
