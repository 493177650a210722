"""From a file to typed, described, compressed columns: what runs confined in a process of its own.

Nothing here knows HTTP or a database, and nothing here is imported that starts threads or takes long.
"""
