"""Projects are kept: the namespaces of teams with their limits and rights.

``wanted_objects`` says what a project is made of, ``differences`` whether that is there, and
``project_controller`` writes what is not, and the status.
"""
