"""Layouts of cards that are cut into MIG instances: what is changed for the work that waits.

``cards`` are cards as they are, ``places`` what each place on a board is worth to later work, ``steps`` the
way from one layout to another, and ``plan`` the choice of cards and places. ``wanted`` reads what a Node says
of its cards. All of it is pure: nothing is cut here.
"""
