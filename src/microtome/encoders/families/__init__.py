"""Which families of models are known? One module each."""
