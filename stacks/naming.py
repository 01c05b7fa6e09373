"""What a stack is called in the account, by its name alone: for the program, and for those who look after it."""

from components.names import PROJECT, safe_name, stack_tags

MOST_CLUSTER_NAME = 48
"""EKS allows 100 characters; IAM roles named after the cluster allow 64, with their own ending."""


def cluster_name(stack: str) -> str:
    """Name of the stack's EKS cluster."""
    return safe_name(f"{PROJECT}-{stack}", MOST_CLUSTER_NAME)


def own_tags(stack: str) -> dict[str, str]:
    """The tags by which everything of the stack is known, without those that its file adds."""
    return stack_tags(stack, {})
