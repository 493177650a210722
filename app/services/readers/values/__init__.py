"""Values in columns of text: numbers, dates and booleans, parsed where the whole column agrees."""
