"""Worlds of other packages: how fast they are played beside the bare package, and what scripted players score.

__main__    the command and its tables
bare        the packages without Parley, doing the same steps
speed       the contestants, which take turns
"""
