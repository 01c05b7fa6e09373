"""What `choose`, `modes` and `init` share: the stack whose setups they try, the table of choices, and the new file."""
