"""The live scheduler beside kube-scheduler, on one real API server, in turns.

``__main__`` reads what to run and publishes; ``plan`` says which trials at which sizes; ``arena`` is
the server with its nodes and pods; ``contender`` starts one of the two schedulers and weighs it;
``audit`` reads from the server's own audit log when it listed, bound and told; ``trials`` puts these
together.
"""
