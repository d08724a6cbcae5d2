"""The stream of episodes and refits that every way of asking stands on, its journal, and its client."""
