"""How do the states of all layers become rows, in one pass over the corpus?"""
