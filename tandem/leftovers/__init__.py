"""The command `tandem leftovers`: what `destroy` left in the AWS account."""
