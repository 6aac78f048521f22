"""Endpoints to fitted surfaces, and refits on bootstrap resamples and without each cell."""
