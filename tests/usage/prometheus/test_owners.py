"""A workload's name from a pod's, where nobody told its owner."""

import pytest

from gpufleet.usage.prometheus.owners import name_without_hash


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        # Real names: a Deployment of kubeadm, a DaemonSet, a Job of a CronJob, a StatefulSet, a bare pod.
        ("coredns-5dd5756b68-7kdvg", "coredns"),
        ("kube-proxy-2x9nl", "kube-proxy"),
        ("backup-28471680-jx5tz", "backup-28471680"),
        ("web-0", "web-0"),
        ("train", "train"),
        # "e" and "a" are in no hash, six letters are none.
        ("train-large", "train-large"),
        ("train-large-5dd5756b68-bcdfg", "train-large"),
        ("x-bcdfgh", "x-bcdfgh"),
    ],
)
def test_letters_that_controllers_append_go(pod: str, workload: str) -> None:
    assert name_without_hash(pod) == workload
