"""What may be said: maps, and the statements made from them."""
