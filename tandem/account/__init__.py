"""Commands about the AWS account: what is left after `destroy`, what its quotas allow, what things cost there today."""
