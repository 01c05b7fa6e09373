"""The emulated account of `tests/tandem/aws`."""

from tests.tandem.aws.conftest import cleaning, creation, emulated, tandem

__all__ = ["cleaning", "creation", "emulated", "tandem"]
