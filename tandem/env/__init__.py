"""`tandem env`: forwarded ports that stay, and the variables with which clients find them."""
