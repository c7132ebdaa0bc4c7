"""The state as arrays, and the compiled code that reads and writes it: the first stage, which knows no other.

``layout`` names the columns, ``tables`` owns the arrays and lets them grow, ``journal`` is the one way to
write what a trial may undo. ``compiled`` says how kernels are compiled and cached, ``handle`` how they get
many arrays at once. ``placing`` books a pod on its devices and ``charge`` on its queue; ``request`` reads
what a shape asks for. ``state`` comes next: it gives rows of these arrays to nodes, pods and shapes.
"""
