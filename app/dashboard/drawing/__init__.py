"""Charts as SVG, drawn with matplotlib, and with ArviZ for traces and ranks."""
