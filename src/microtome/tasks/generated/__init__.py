"""Generated tasks: three tasks from grammars, with known Bayes accuracy and no download."""
