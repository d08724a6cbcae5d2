"""Games of other libraries, played here."""
