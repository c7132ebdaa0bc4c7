"""Pods and gangs: from Pod, its claims and its groups to the pod that the engine places.

``pod_reader`` reads one pod, or says why it is held back. ``pod_tracker`` remembers each pod (``pod_entry``)
and tells the engine what is new; ``gang_tracker`` does so for gangs. ``effective_terms`` says what a placed
pod was bound with. ``holder_tracker`` compares what nodes report with what was granted (``held_devices``),
and ``ended_pods`` knows which holders have ended. ``dependencies`` finds the pods that another object
concerns.
"""
