"""Loss surfaces in (F, S, D): what they are, and the frontier, allocation and gain that follow from them."""
