"""The command `doctor`: problems on this machine, in the account or in the cluster that would stop `pulumi up`."""
