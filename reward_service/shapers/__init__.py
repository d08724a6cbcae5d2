"""How finished episodes become rewards of their turns: a file or folder for each way."""
