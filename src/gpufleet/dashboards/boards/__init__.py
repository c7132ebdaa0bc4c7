"""One module for each board: its panels in the order in which a person looks, with what each one asks for.

``catalogue`` collects them.
"""
