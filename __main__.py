"""The Pulumi program: `pulumi up --stack timeslice`."""

import stacks

stacks.run()
