"""Pods are ended in one place, ``gpufleet.eviction``: it checks the lease, and heeds budgets and refusals."""

import ast

from tests.conventions.project import name, python_files, tree

THE_ONE_PLACE = "src/gpufleet/eviction/evictions.py"
THE_CLIENT_ITSELF = "src/gpufleet/kube/client.py"
ENDS_PODS_BY_ITSELF = {
    "src/gpufleet/operator/rollout_actions.py": "the check pods that the operator made, which do no work",
}
CLIENTS = ("client", "_client")
"""How an attribute or a variable is called that writes to an API server."""


def ends_a_pod(call: ast.Call) -> bool:
    """Whether a call asks the API server for the end of a pod."""
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = ast.unparse(call.func.value).rpartition(".")[2]
    if call.func.attr == "evict":
        return owner in CLIENTS
    pods = any(ast.unparse(one).rpartition(".")[2] == "PODS" for one in call.args[:1])
    return call.func.attr == "delete" and owner in CLIENTS and pods


def ending_modules() -> set[str]:
    """The modules with such a call."""
    return {
        name(path)
        for path in python_files("src/gpufleet")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ends_a_pod(node)
    }


def test_pods_are_ended_in_one_place_and_where_the_table_says_why() -> None:
    found = {one for one in ending_modules() if "/localkube/" not in one and "/simulation/" not in one}
    assert found == {THE_ONE_PLACE, *ENDS_PODS_BY_ITSELF}


def test_only_the_client_writes_the_subresource_of_evictions() -> None:
    writers = {
        name(path)
        for path in python_files("src/gpufleet")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.keyword) and node.arg == "subresource"
        if isinstance(node.value, ast.Constant) and node.value.value == "eviction"
    }
    assert writers == {THE_CLIENT_ITSELF}
