"""Recipes: the settings of a run, and how a file, what it is based on, layers and overrides become one."""
