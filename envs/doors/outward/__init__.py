"""Games of this house, played by other libraries."""
