"""Downstream tasks and their items."""
