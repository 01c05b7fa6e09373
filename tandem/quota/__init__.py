"""The command `tandem quota`: the limits of the AWS account."""
