"""Which group of nodes Cluster Autoscaler is to enlarge: `gpufleet expander`.

The autoscaler offers options: a group, how many nodes, and the pods that it believes they help
(``protocol``). ``judgement`` has the engine of the live scheduler say what each option would start; one that
starts nothing, as half a gang, is not chosen. ``choice`` is the rule, ``coming_nodes`` is what was chosen and
has not joined yet, ``template_nodes`` are the nodes that an option adds. ``answering`` puts them together,
``service`` answers over gRPC, and ``process`` runs it.
"""
