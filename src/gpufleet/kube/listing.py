"""Pages of a list, and which objects it is about.

Items stay bytes until the decoder of their kind reads them one by one: a bad one harms only itself.
"""

from urllib.parse import urlencode

import msgspec

from gpufleet.kube.answer import AnswerUnreadable, decode


class Selection(msgspec.Struct, frozen=True):
    """Which objects: label and field selectors as Kubernetes writes them; empty means all."""

    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """The parameters of the request."""
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {key: value for key, value in chosen.items() if value}


ALL = Selection()
"""Every object of a kind: no selector on labels or fields."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """One page of a list; all pages of a list are of one resourceVersion."""

    items: list[msgspec.Raw] | None = None
    metadata: ListMeta = ListMeta()


_DECODER = msgspec.json.Decoder(Page)


def read_page(body: bytes) -> Page:
    """The page in an answer. Raises AnswerUnreadable."""
    page = decode(body, _DECODER)
    if not page.metadata.resource_version:
        # A watch starts from the list's resourceVersion; and an answer "{}" must not look like an empty list.
        raise AnswerUnreadable("a list without resourceVersion")
    return page


def with_query(path: str, query: dict[str, str]) -> str:
    """Path and query as they stand in a request line."""
    return f"{path}?{urlencode(query)}" if query else path
