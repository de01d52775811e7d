"""How sure a number is: intervals, nulls and permutations, on arrays."""
