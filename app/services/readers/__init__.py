"""Parsers of uploaded files, run in confined processes: from a file to typed, summarised, compressed columns.

This package knows neither HTTP nor a database, and imports nothing that starts threads or is slow to import.
"""
