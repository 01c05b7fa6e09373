"""How the wheel is built: the folders of the checkout become packages within `tandem`."""
