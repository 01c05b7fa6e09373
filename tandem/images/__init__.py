"""`tandem images`: the images and charts of a stack, and how to copy them to a registry."""
