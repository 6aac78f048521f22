"""Fitted surfaces to compute efficiency gains, allocations and frontiers, with intervals."""
