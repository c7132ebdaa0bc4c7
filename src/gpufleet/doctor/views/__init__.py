"""What the facts of a cluster tell about one matter, such as queues or the GPU stack, for several checks."""
