"""What trainer and engines have to agree on about a weight, whichever library holds it."""
