"""What commands of a terminal read and write for advice: manifests, model files, images, clusters, the hub.

``lint``, ``fit`` and ``cuda`` read what the pure packages of these names judge; ``sharing`` says from
measured use which sharing pays. Nothing here changes a cluster.
"""
