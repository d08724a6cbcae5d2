"""Worlds in Java: each process of them holds one Java machine, which plays many episodes at once.

    game --enter--> shared --lease--> envs.processes --> world --> machine --starts--> java
         --call(method, ...)------------------------------> the episode's own part of the world

All of it is in the process of the game but `machine` and a world's own module `world`.
"""
