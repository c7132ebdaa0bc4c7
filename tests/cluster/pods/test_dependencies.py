"""A pod is read again when any object that was looked up for it changes."""

from gpufleet.cluster.pods.dependencies import Dependencies, ObjectKey
from gpufleet.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from gpufleet.model.identifiers import PodUid

A, B = PodUid("a"), PodUid("b")
CLAIM = ObjectKey(PERSISTENT_VOLUME_CLAIMS, "team", "data")
OTHER = ObjectKey(PERSISTENT_VOLUME_CLAIMS, "team", "other")
VOLUME = ObjectKey(PERSISTENT_VOLUMES, "", "disk-1")
ANY_VOLUME = ObjectKey(PERSISTENT_VOLUMES, "", "")


def test_every_pod_that_looked_at_an_object_depends_on_it() -> None:
    known = Dependencies()
    known.replace(A, frozenset({CLAIM}))
    known.replace(B, frozenset({CLAIM, OTHER}))
    assert known.dependants(CLAIM) == [A, B]
    assert known.dependants(OTHER) == [B]


def test_who_looked_at_all_of_a_kind_depends_on_each() -> None:
    known = Dependencies()
    known.replace(A, frozenset({ANY_VOLUME}))
    assert known.dependants(VOLUME) == [A]


def test_what_is_no_longer_looked_at_no_longer_counts() -> None:
    known = Dependencies()
    known.replace(A, frozenset({CLAIM}))
    known.replace(A, frozenset({OTHER}))
    assert known.dependants(CLAIM) == []
    assert known.dependants(OTHER) == [A]


def test_nothing_is_kept_of_pods_that_left() -> None:
    known = Dependencies()
    known.replace(A, frozenset({CLAIM, OTHER}))
    known.replace(A, frozenset())
    assert known.dependants(CLAIM) == []
    assert not known._keys_by_pod
    assert not known._pods_by_key
