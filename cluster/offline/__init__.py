"""Training on recorded games: stages from files to files, in a work folder."""
