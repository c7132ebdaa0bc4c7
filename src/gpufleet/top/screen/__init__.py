"""Frames of text from lines of values. Pure: a frame is a function of lines, size, choice and colour.

``amounts`` writes values, ``columns`` says what a column is, ``views`` has the columns of each view,
``order`` and ``table`` put lines in order and into columns. ``keys`` reads keys, ``choice`` is the state that
they change, and ``frame`` puts the whole screen together.
"""
