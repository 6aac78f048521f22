"""Figures of downstream scores."""
