"""Task heads: the states that they read, their losses and predictions, and their training in every layer."""
