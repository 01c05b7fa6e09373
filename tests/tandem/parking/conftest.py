"""The emulated account of `tests/tandem/aws`."""

from tests.tandem.aws.conftest import account, cleaning, creation, emulated, tandem

__all__ = ["account", "cleaning", "creation", "emulated", "tandem"]
