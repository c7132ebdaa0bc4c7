"""What things are: frozen values of nodes, devices, pods, shapes, gangs and queues.

Nothing here reads a file, a clock or a server. ``engine`` decides over these values and
``replay`` (and later the Kubernetes codecs) make them from the outside world.
"""
