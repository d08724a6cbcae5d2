"""The embedded policy: a small model made of a game's own language, cloned from a scripted player."""
