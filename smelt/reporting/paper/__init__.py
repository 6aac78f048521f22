"""Every number that the paper prints, beside the study's own."""
