"""Doors to other ecosystems: their games in here, these games out there.

    inward    gymnasium, textworld, textarena, openenv   an environment of theirs is a Game of ours
    outward   gymnasium, rllib                           a Game of ours is an environment of theirs

Importing a door needs nothing that the base installation lacks, except for the two that
lead out: what a game needs is asked for when the game is made.
"""
