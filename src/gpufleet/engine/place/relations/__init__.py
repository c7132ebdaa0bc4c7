"""What other pods decide about a pod's place, with the meaning that kube-scheduler gives it.

Read in this order: ``equivalence_classes`` counts pods by node, by the selectors in use; ``asks`` is what the
pods of one shape ask of others; one module a concept (``host_ports``, ``affinity``, ``spread``,
``attachments``, ``exclusive_volume_claims``, ``unbound_volume_claims``, ``device_claims``) turns both into
reasons by node row;
``neighbours`` keeps all of it in step with the pods' places, and ``preference`` ranks what is left.
``choose.related_places`` then finds the place.
"""
