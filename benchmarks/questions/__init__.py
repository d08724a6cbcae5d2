"""Natural questions with the right answers, and how the oracles of the guessing games answer them."""
