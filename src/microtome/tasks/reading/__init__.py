"""Reading of original task files: finding files, parsing records and converting them to examples."""
