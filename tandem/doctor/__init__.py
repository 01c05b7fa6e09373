"""The command `doctor`: whether anything on this machine, in the account or in the cluster would stop `pulumi up`."""
