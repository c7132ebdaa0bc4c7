"""NVIDIA's GPUs, through the driver's own library, NVML.

``nvml`` is NVML with types, ``refusals`` what its codes mean to us. What is asked with them stands by
subject: ``inventory`` (with ``instances`` and ``links``) is what does not change, ``readings`` (with
``activity`` and ``resets``) one moment, ``processes`` the processes on a GPU, ``events`` what the driver
reports by itself. ``backend`` puts them together behind the interface of all vendors.
"""
