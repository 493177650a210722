"""Charts as SVG: matplotlib's, and ArviZ's for traces and ranks."""
