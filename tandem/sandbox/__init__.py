"""`tandem sandbox`: the real `pulumi` against the emulated cloud."""
