"""How utterances become intentions: one method in a file of its name each."""
