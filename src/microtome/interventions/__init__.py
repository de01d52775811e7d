"""What can be done to the stack of blocks? Interventions, each a value that is applied to a copy."""
