"""What a provider does with a call: names, defaults, the difference, outputs, functions, credentials."""
