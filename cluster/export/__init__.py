"""A trained policy as others take it: a folder of the model, its card and its recipe, here or on a hub."""
