"""`python -m tests.control_plane`: builds and starts a control plane, prints its kubeconfig, stops it at Ctrl-C."""

import sys
import time
from contextlib import suppress

from tests.control_plane.build import BuildError, GoMissingError, built
from tests.control_plane.kept import StartError
from tests.control_plane.running import control_plane


def main() -> int:
    """Returns 0 after Ctrl-C, or 1 with one reason if it cannot be built or started."""
    try:
        with suppress(KeyboardInterrupt), control_plane(built(_say)) as plane:
            _say(f"kubectl --kubeconfig {plane.kubeconfig} get nodes   # until Ctrl-C")
            while True:
                plane.check()
                time.sleep(1)
    except (BuildError, GoMissingError, StartError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
