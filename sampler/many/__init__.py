"""Many small models, one for each group of a table: fitted in processes, kept in a folder, asked by group."""
