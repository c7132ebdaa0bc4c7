"""Intel's GPUs, from the kernel's file system alone.

There is no vendor library that comes with the driver, and what the kernel shows is enough to count GPUs,
name them, watch their heat, power and clocks, and see one go. What it does not show (the processes on a GPU,
how busy it is) is absent. ``backend`` reads, ``products`` knows names.
"""
