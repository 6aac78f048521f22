"""One look for all figures: colours, axes, labels and reproducible bytes."""
