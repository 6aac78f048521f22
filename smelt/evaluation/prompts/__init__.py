"""Items to prompts and model requests."""
