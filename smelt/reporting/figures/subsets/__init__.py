"""Figures of gains on parts of the text."""
