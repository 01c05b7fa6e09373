"""The emulated account of `tests/tandem/aws`."""

from tests.tandem.aws.conftest import account, cleaning, emulated, tandem

__all__ = ["account", "cleaning", "emulated", "tandem"]
