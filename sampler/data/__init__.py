"""Tables and columns: reading, schema, encoding, binning."""
