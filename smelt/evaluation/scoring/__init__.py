"""Requests and held-out text to log-likelihoods of an endpoint."""
