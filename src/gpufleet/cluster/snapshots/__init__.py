"""The state of a cluster in one file: what decisions depend on, at one moment, and the decisions themselves.

``command`` takes one from a cluster, ``lines`` says what of each object is in it, ``document`` writes and
reads the file, ``decisions`` asks the engine, ``sources`` answers others' questions on a file or a cluster.
"""
