"""Critics: of each token, and of whole turns."""
