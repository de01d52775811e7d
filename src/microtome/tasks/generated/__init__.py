"""Which tasks need no download? Three that are written by a grammar, so that their best score is known."""
