"""Endpoints as one table: collected from runs, brought by a user, or simulated."""
