"""`python -m tandem`."""

from tandem.command import entry

entry()
