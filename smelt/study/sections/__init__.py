"""The study file, section by section: the settings that only the study reads."""
