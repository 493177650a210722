"""Outcomes that became known after a fit: reports of rows, their scores, sums by week, and the watch."""
