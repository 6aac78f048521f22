"""Downstream scores against loss: curves, residuals and win counts."""
