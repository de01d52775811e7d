"""Claims: what follows from a result, as typed data, and how each kind of it is written."""
