"""The AWS account in which stacks run: what is there, what is allowed."""
