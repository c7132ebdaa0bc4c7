"""MIG layouts of this node's cards are changed here.

``node_layouts`` follows what the Node says, ``layout_changer`` brings one card to another layout, call by
call, and back where that cannot be done. ``held_on_card`` says what is held, ``offered_gpus`` withholds.
``states_taken_back`` is for an agent that changes none.
"""
