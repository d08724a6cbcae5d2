"""Worlds that others have made, each from its own package, which ships its data: one room or file a world.

Importing a world needs nothing that the base installation lacks: `envs.worlds.package` asks for the package when the
game is made. The packages are the extra `worlds` in setup.cfg; what these bring in is in requirements/worlds.lock.
"""
