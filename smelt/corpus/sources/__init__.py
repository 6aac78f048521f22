"""Pinned packages: which they are, how they are fetched and opened."""
