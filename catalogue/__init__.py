"""How the table of models comes about: facts with their sources, and the program that turns them into the table.

People install the table alone. `python -m catalogue` writes it again, without a network.
"""
