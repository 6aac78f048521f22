"""Ablations and learning-rate sweeps: differences in loss at equal training."""
