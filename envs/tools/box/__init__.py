"""The tools that come with the game, one file a subject."""
