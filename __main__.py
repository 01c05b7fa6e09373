"""The Pulumi program: `pulumi up --stack timeslice`."""

import gc

# The providers' SDKs are a million objects that stay. To search them for garbage takes a seventh of the program's time.
gc.disable()

import stacks  # noqa: E402

stacks.run()
