"""The bill of a stack, and the quotas that it takes."""
