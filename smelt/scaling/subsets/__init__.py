"""Gains on parts of the text: sources, categories, quartiles and lengths."""
