"""Which model is it, and what is it in layers?"""
