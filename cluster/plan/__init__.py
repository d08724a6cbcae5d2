"""What runs where, in which type, and in how much memory: decided once, before anything starts.

    settings + Machine + ModelShape  --plan-->  Plan: the same settings with nothing left open

machine.py  what a computer or cluster has: its build, nodes, cards; said, or looked up
shape.py    a model's widths, read from its config; how many weights that makes
memory.py   what each part of a run takes of a card: arithmetic
decide.py   the decision, pure
seating.py  who sits on which card
lines.py    a plan for people

Learners and engines read the plan's settings and decide nothing themselves, so they cannot disagree.
"""
