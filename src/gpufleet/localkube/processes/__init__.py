"""The processes of a local cluster: the plan of what runs, child processes, their restarts, and their
folders.
"""
