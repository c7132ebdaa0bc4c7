"""A real node beside the simulated ones: containerd, runc, CNI plugins and a kubelet, and no trace of them.

The node lives in namespaces of its own: one of processes, so that the death of its first process ends all of
it, containers too, and one of mounts, so that no mount outlives it and the paths that kubelet and containerd
cannot be talked out of (/var/lib/kubelet/device-plugins, /run/containerd) are its own. Outside it has a
bridge, a control group and files in the cluster's folder. From the outside in: `node_supervisor` runs a node
and clears it away, `first_process` is process 1 inside, `private_view` makes its mounts, `configuration` and
`images` its files; `real_node` is what commands and tests hold in their hands.
"""
