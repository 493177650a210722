"""`python -m app.cli` is `bartserve`."""

from app.cli import main

main()
