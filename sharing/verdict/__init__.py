"""The verdict on a stack: every rule, the fixes that were tried, and the setups that would do."""
