"""Figures of the fits: losses, surfaces, frontiers and gains."""
