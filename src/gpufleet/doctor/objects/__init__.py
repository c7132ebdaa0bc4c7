"""Single objects of a cluster as checks read them: nodes, pods, workloads, and the status of any object."""
