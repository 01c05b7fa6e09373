"""`tandem completion`: what a shell offers when the user presses Tab."""
