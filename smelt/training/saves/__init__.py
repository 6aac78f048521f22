"""What a killed run resumes from, and how models are written."""
