"""What is kept of the rows: second moments, and what follows from them once a layer."""
