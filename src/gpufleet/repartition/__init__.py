"""Which cards would be cut into MIG instances for the work of a cluster that waits.

``command`` asks the planner of ``mig`` about what ``cluster.mig_layouts`` reads, ``given_layouts`` reads what
a person gives, ``answer`` is what it says, and ``applying`` brings it onto the Nodes.
"""
