"""Which row is which word, token or example?"""
