"""Small encoders of our own that differ in one thing only: how they are made, and what is known of them."""
