"""An entire stack: its pools, models and settings, and the zones and times that follow from them."""
