"""The in-context sweep over numbers of demonstrations, and whether its gain is real."""
