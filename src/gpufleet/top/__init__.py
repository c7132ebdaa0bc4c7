"""``gpufleet top``: the state of a fleet on a terminal, live, or once where the output is no terminal.

``gpufleet.overview`` reads the cluster and makes lines of what is known; ``screen`` makes frames of lines and
is pure. ``live`` holds the terminal, ``once`` prints one table, and ``command`` puts the parts together. What
is not known is shown as ``?``, never as 0.
"""
