"""Which blocks can go, what is promised of the model without them, and how does it leave?"""
