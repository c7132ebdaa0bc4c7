"""MIG layouts of this node's cards are changed here.

``layout_changer`` brings one card to another layout, call by call, and back where that cannot be done.
"""
