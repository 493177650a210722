"""Entry point of `python -m app.cli`, the same as `bartserve`."""

from app.cli import main

main()
