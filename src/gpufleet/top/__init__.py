"""``gpufleet top``: the state of a fleet on a terminal, live, or once where the output is no terminal.

``readings`` asks the cluster, the engine and whatever measures use; ``rows`` makes lines of what is known,
and ``screen`` makes frames of lines. These two are pure. ``live`` holds the terminal, ``once`` prints one
table, and ``command`` puts the parts together. What is not known is shown as ``?``, never as 0.
"""
