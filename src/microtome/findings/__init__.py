"""Result types: similarity maps, score curves, and the statements derived from them."""
