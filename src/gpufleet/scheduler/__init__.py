"""The live scheduler: a shell that feeds the cluster's changes to the engine and carries out its word.

Start reading at ``service`` (what runs, in which order), then ``rounds`` (one decision round):
``desk`` collects what the mirrors saw, ``translation`` turns it into the engine's events, and
``binder``, ``reporting`` and ``gang_deadlines`` carry instructions out. It decides nothing itself.
"""
