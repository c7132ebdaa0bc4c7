"""Why a shape fits on no node: asked after a refusal, over all nodes at once.

``survey`` asks every node in compiled code, ``nearest_nodes`` finds the reasons that would need the least
change, ``verdict`` makes the answer for a shape, and ``judging`` that for a pod with its queue and models.
Comes after ``choose`` and before ``gangs``, whose attempts say why they failed.
"""
