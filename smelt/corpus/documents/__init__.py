"""Package files to clean, distinct documents with a stream each."""
