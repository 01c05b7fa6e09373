"""The Pulumi program: `pulumi up --stack timeslice`."""

import atexit
import gc
import signal

# Pulumi sends SIGINT to this process when you cancel an update (3.260, pulumi-language-python/main.go, `cmd.Cancel`).
# The default action ends it. Python's own handler would print a traceback first.
signal.signal(signal.SIGINT, signal.SIG_DFL)

# The providers' SDKs are a million objects that stay. To search them for garbage takes a seventh of the program's time,
# and again a quarter of it when the interpreter ends, which searches them even then unless they are frozen.
gc.disable()
atexit.register(gc.freeze)

from stacks.program import run  # noqa: E402

run()
