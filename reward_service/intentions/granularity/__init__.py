"""How many intentions: one way to choose in a file of its name each."""
