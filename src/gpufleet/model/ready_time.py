"""How long a pod takes from its start on a node until it is ready, by part."""

import msgspec


class ReadyTime(msgspec.Struct, frozen=True):
    """Seconds by part; None where one is not known, which is another thing than 0.

    ``image_s`` is the pull of its images, ``data_s`` the copy of the models and datasets that the node
    lacks, ``load_s`` what passes from complete data to a ready pod.
    """

    image_s: float | None = None
    data_s: float | None = None
    load_s: float | None = None
