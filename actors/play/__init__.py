"""Many games at once in one worker: the players on their seats, and the state of each episode."""
