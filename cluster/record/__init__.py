"""What a run leaves in its folder and says on the terminal."""
