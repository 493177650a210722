"""Rows held out and rows that judge: by how new rows will differ, and what the rows themselves say of it."""
