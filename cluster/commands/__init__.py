"""The commands of `parley`: what is typed, what is printed."""
