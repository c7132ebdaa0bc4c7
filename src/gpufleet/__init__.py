"""gpufleet: one shared fleet of GPUs on Kubernetes.

The packages, from the inside out: ``model`` says what things are, ``engine`` decides,
``replay`` runs the engine on a recorded trace, ``cli`` is what a person types.
"""

__version__ = "0.1.0"
