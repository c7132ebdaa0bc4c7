"""Every key that we read from pods is explained to those who write them."""

import pytest

from gpufleet.kube import keys
from tests.conventions.project import ROOT

# Not written by people on pods: of storage controllers, our own manifests and scheduler, of autoscalers,
# namespaces and nodes.
NOT_OF_PODS = {
    "BIND_COMPLETED",
    "SELECTED_NODE",
    "BETA_STORAGE_CLASS",
    "VICTIMS",
    "METRIC_LIMIT",
    "NAMESPACE_NAME",
    "MIRROR",
    "COMPONENT",
    "BACKFILL_UNTIL",
    "CORDONED_BY",
    "DRAIN_DEADLINE",
    "DATA_WANTED",
    "PROVISIONED_GANG",
    "PROVISIONING_ATTEMPT",
}
NAMES = [
    name for name, value in vars(keys).items() if name.isupper() and isinstance(value, str) and "/" in value
]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_OF_PODS])
def test_key_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "pod-inputs.md").read_text(encoding="utf-8")
    assert f"`{getattr(keys, name)}`" in page or f"`{getattr(keys, name)}:" in page
