"""What `--json` says of a plan: for `plan`, and in part for `modes`, `choose` and `bench`."""
