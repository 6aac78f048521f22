"""A study file: found, validated, completed, and read as runs, tasks and tables of endpoints."""
