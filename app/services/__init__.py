"""What the endpoints do, without HTTP."""
