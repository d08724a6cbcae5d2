"""ARIA on files: the same intentions and group means as beside the traffic, over a data set on disk.

records -> distinct gists, and each turn as codes of them -> labels at every k -> group means
"""
