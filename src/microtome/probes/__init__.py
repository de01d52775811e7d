"""What can be read from a layer? Readouts that are fitted until nothing is left to gain."""
