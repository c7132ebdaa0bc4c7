"""What there is, as rows of ``arrays``: nodes and devices, shapes, pods, gangs and topology domains.

``fleet`` holds the nodes, ``shapes`` what pods ask for, ``pods`` the pods and where they are booked,
``gang_members`` the pods of a gang, ``domains`` the nodes of each topology domain. ``eligibility`` compares
the labels and taints of nodes with shapes, ``bounds`` refuses amounts that the arrays could not hold. Comes
after ``arrays`` and before ``queueing``, which counts pods against queues.
"""
