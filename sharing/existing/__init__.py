"""What AWS says of networks and clusters that a stack uses but does not own, and whether the stack can run there."""
