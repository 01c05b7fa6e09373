"""Looks at a stack that is up: `tandem verify` (are the promises kept?) and `tandem watch` (what goes on there?)."""
