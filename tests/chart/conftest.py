"""Makes the session's cluster known to the tests of this folder."""

from tests.localkube.cluster import cluster

__all__ = ["cluster"]
