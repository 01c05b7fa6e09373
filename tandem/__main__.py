"""`python -m tandem`."""

from tandem.main import entry

entry()
