"""Games of Parley, played by other libraries."""
