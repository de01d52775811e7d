"""Task models, an encoder with a head: construction, trainable parameters, conversion and saving."""
