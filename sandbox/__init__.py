"""An emulated cloud for Pulumi programs, and doors into it: no AWS account, no network."""
