"""Compute-matched looped MoE Transformers: from real text to a compute efficiency gain."""

__version__ = "0.1.0"
