"""A recorded fleet and its tasks, played through the real engine on a virtual clock.

``trace`` reads the tables, the arrivals and the driver bring the tasks to the engine, and
``results`` are the values from which ``report`` draws its pages.
"""
