"""The table of waiting pods: each kind with its cause and first way out, in the words of each answer."""

from tests.localkube import waiting_on_nodes, waiting_on_others
from tests.localkube.waiting_pods import Kind

KINDS: tuple[Kind, ...] = (*waiting_on_nodes.KINDS, *waiting_on_others.KINDS)
