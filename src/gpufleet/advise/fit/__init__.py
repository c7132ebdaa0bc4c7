"""What ``gpufleet fit`` reads for the arithmetic of ``gpufleet.fit``: model files, the hub, clusters.

``local_files`` reads a model from disk (``safetensors``, ``gguf``), ``hub`` from the hub; ``on_cluster`` and
``cluster_file`` say what a cluster has; ``ask`` puts the question.
"""
