"""Where the panels of a figure stand, to the same digits every time.

The solver of the layout goes through its constraints in an order that depends on addresses in memory, so that its
results differ in their last digits from run to run. No coordinate in a file has so many digits, but in SVG the names
of clipping paths are digests of all of them.
"""

from matplotlib.figure import Figure

DIGITS = 6  # of a position in units of the page


def freeze_layout(figure: Figure) -> None:
    """Lay the figure out once and for all, with rounded positions."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        left, bottom, width, height = (round(value, DIGITS) for value in axis.get_position(original=True).bounds)
        axis.set_position((left, bottom, width, height))
