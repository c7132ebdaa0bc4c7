"""What the names mean that people and controllers write in pods and on nodes, read in one place for all.

``gpu_resources`` says which resources stand for GPUs, ``node_labels`` which labels name a card and its
driver; ``queue_names``, ``group_names`` and ``shares`` read from a pod its queue, its gang's name and its
share of a GPU. They take labels, annotations and amounts as plain texts, so that an object from a server and
a field of a file are read alike: ``kube.codec`` gives the first, ``lint.objects`` the second.
``model.requests`` adds amounts up, for both.
"""
