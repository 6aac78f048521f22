"""Documents to tokens, packed contexts and held-out pieces."""
