"""The policy's network: how it is loaded, cut up, and what is read off it."""
