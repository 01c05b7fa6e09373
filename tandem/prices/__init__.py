"""The command `tandem prices`, and `make refresh`: current prices from AWS."""
