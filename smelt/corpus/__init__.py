"""Real text to clean documents, tokens and packed contexts."""
