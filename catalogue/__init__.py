"""Files that are made for the project and not installed: the table of models, from facts with sources, and the SBOM.

`python -m catalogue` writes the table again, without a network.
"""
