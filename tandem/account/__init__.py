"""Commands about the AWS account: leftovers after `destroy`, quotas, and current prices."""
