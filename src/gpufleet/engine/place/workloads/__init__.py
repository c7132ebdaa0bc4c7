"""The unit of every decision: pods that start together, one or more of them.

``workload`` says what a workload can be asked, ``single_pod`` and ``gang_workload`` answer for a pod of no
gang and for a gang, ``workloads`` finds the workload of a pod. Comes after ``gangs``.
"""
