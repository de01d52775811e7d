"""One experiment a module: what is asked of an encoder, and a result that says how sure the answer is."""
