"""Measurements of the sampler and the service, and studies of the papers: `python -m lab`."""

import argparse
import sys


def command(doc: str) -> argparse.ArgumentParser:
    """Return the parser of a measurement's options, whose help is its docstring."""
    return argparse.ArgumentParser(
        prog=sys.argv[0], description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
