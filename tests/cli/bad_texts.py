"""Of every parameter that takes any text: the texts that it must refuse.

A parameter with numbers, words to choose from or a path has a type of ``cli.parameters`` and is not here. A
new parameter of another type has to be put here.
"""

from typing import NamedTuple

from tests.cli.command_parameters import PROMETHEUS


class Bad(NamedTuple):
    """Texts that are refused, and the other options without which nobody looks at them."""

    texts: tuple[str, ...]
    needs: str = ""
    without: str = ""


ANY = Bad(())
"""Each text may be a name: of an object that the cluster is asked for, or in somebody else's words."""

_CLUSTER_NAME = Bad(("", "Local", "a/b", "x" * 41, "no-such"))
_CONTEXT = Bad(("no-such",))
_POLICY = Bad(("", "no-such"))
_DURATION = Bad(("", "soon", "-1", "1.5s"), PROMETHEUS, without="use.csv")
_UNTIL = Bad(("", "yesterday"), PROMETHEUS)
_URL = Bad(("no address", "ftp://here"))

_SEEDS = Bad(("", "x", "5..1", "-1", "1..x", "0..9999999"))

TEXTS: dict[str, Bad] = {
    "replay --policy": _POLICY,
    "replay --seed": Bad(("", "x", "5..3", "1..x", "-1")),
    "replay --ray": ANY,
    "gpufleet-sim --fault": Bad(("no-such", "two-leader", "all,two-leaders")),
    "gpufleet-sim --seed": _SEEDS,
    "gpufleet-sim --plan": Bad(("no-such", "Priorities")),
    "sim_node --seed": _SEEDS,
    "up --name": Bad(("", "Local", "a/b", "x" * 41)),
    "up --gpu-model": Bad(("", "H10O-80GB")),
    "up --mig": Bad(("", "9g.10gb")),
    "up --pool": Bad(("", "many:H100-80GB", "2:H10O-80GB", "2:H100-80GB:x")),
    "up --kubernetes": Bad(("", "newest", "1.x")),
    "down --name": _CLUSTER_NAME,
    "kubeconfig --name": _CLUSTER_NAME,
    "explain POD|GROUP": ANY,
    "explain --namespace": ANY,
    "explain --context": _CONTEXT,
    "explain --scheduler-name": ANY,
    "explain --lease-namespace": ANY,
    "queues --queue": ANY,
    "queues --resource": ANY,
    "queues --context": _CONTEXT,
    "queues --scheduler-name": ANY,
    "queues --lease-namespace": ANY,
    "top --namespace": ANY,
    "top --sort-by": Bad(("no-such", "usage")),
    "top --filter": ANY,
    "top --prometheus": _URL,
    "top --context": _CONTEXT,
    "top --scheduler-name": ANY,
    "top --lease-namespace": ANY,
    "web --listen": Bad(("here", "127.0.0.1:x", "127.0.0.1:99999", "192.0.2.1:80", ":80")),
    "web --host": Bad(("fleet.example.com",)),
    "web --trusted-proxy": Bad(("", "proxy.example.com", "10.0.0.7/24", "10.0.0.256"), "--login cluster"),
    "web --proxy-user-field": Bad(("", "X Forwarded User", "X-User:", "Nutzer-ä")),
    "web --proxy-groups-field": Bad(("", "X Groups")),
    "web --proxy-user-prefix": Bad(("system:", "system:admin-")),
    "web --proxy-groups-prefix": Bad(("system:",)),
    "web --prometheus": _URL,
    "web --context": _CONTEXT,
    "web --scheduler-name": ANY,
    "web --lease-namespace": ANY,
    "snapshot --context": _CONTEXT,
    "snapshot --scheduler-name": ANY,
    "snapshot --policy": _POLICY,
    "whatif --add-nodes": Bad(
        (
            "",
            "x",
            "0",
            "2:gpus=x",
            "2:likes=node",
            "2:gpus=8,model=H10O-80GB",
            "2:gpus=0,cpu=much",
            "2:gpus=0,sharing=some",
        )
    ),
    "whatif --remove-node": ANY,
    "whatif --set-quota": Bad(("", "x", "q.gpu=much", "q.gpus=1", "q.gpu.hard=-1", "q.gpu=none", "a.b=1")),
    "whatif --namespace": ANY,
    "whatif --context": _CONTEXT,
    "whatif --scheduler-name": ANY,
    "whatif --policy": _POLICY,
    "defragment --for": ANY,
    "defragment --namespace": ANY,
    "defragment --context": _CONTEXT,
    "defragment --scheduler-name": ANY,
    "defragment --policy": _POLICY,
    "advise sharing --prometheus": _URL._replace(without="use.csv"),
    "advise sharing --window": _DURATION,
    "advise sharing --step": Bad(("", "soon", "-1", "1.5s")),
    "advise sharing --until": _UNTIL._replace(without="use.csv"),
    "advise sharing --namespace": ANY,
    "advise sharing --kind": Bad(("", "a", "a=no-such")),
    "advise sharing --isolate": ANY,
    "advise sharing --price": Bad(("", "A100-80GB", "A100-80GB=much", "A100-80GB=-1", "no-such=1")),
    "cuda --image": Bad(("",)),
    "cuda --driver": Bad(("", "newest")),
    "cuda --gpu": Bad(("", "no-such")),
    "cuda --env": Bad(("", "NAME")),
    "cuda --brand": Bad(("", "no-such")),
    "cuda --tag": ANY,
    "cuda --platform": ANY,
    "fit MODEL": Bad(("no-such", "absent/config.json")),
    "fit --gpu": Bad(("", "no-such")),
    "fit --context": Bad(("", "many", "-1", "0", "1.5k")),
    "fit --weights": Bad(("no-such",)),
    "fit --kv": Bad(("no-such",)),
    "fit --engine": Bad(("no-such",)),
    "fit --cluster": Bad(("absent.yaml",)),
    "fit --kube-context": Bad(("no-such",), "--cluster --kubeconfig config"),
    "import --context": Bad(("no-such",), "--kubeconfig config", without="manifest.yaml"),
    "admission policies --registry": Bad(("", "https://example.com", "two words", "Team")),
    "admission serve --context": _CONTEXT,
    "admission serve --namespace": ANY,
    "admission serve --listen": Bad(("", "nowhere", "127.0.0.1:99999")),
    "admission serve --service": ANY,
    "admission serve --name": ANY,
    "admission serve --scheduler-name": ANY,
    "admission serve --runtime-class": ANY,
    "scheduler --context": _CONTEXT,
    "scheduler --scheduler-name": ANY,
    "scheduler --identity": ANY,
    "scheduler --lease-namespace": ANY,
    "scheduler --policy": _POLICY,
    "scheduler --defragment-to-start": Bad(("soon", "-1")),
    "scheduler --defragment-every": Bad(("soon", "-1")),
    "scheduler --defragment-window": Bad(("nights", "25:00-26:00"), "--defragment-every 1h"),
    "scheduler --defragment-queue": ANY,
    "scheduler --listen": Bad(("here", "127.0.0.1:x", "127.0.0.1:99999")),
    "policy plan --context": _CONTEXT,
    "policy status POLICY": ANY,
    "policy status --context": _CONTEXT,
    "operator --context": _CONTEXT,
    "operator --namespace": ANY,
    "operator --identity": ANY,
    "operator --listen": Bad(("here", "127.0.0.1:x", "127.0.0.1:99999")),
    "metrics --context": _CONTEXT,
    "metrics --namespace": ANY,
    "metrics --listen": Bad(("here", "127.0.0.1:x", "127.0.0.1:99999")),
    "metrics --external-scaler": Bad(("here", "127.0.0.1:x", "127.0.0.1:99999")),
    "metrics --prometheus": _URL,
    "metrics --scheduler-url": _URL,
    "agent --node-name": ANY,
    "agent --context": _CONTEXT,
    "agent --namespace": ANY,
    "agent --config-map": Bad(("no-slash",)),
    "agent --nvidia-config-map": Bad(("no-slash",)),
    "agent --config-default": ANY,
    "agent --metrics-address": Bad(("here", "127.0.0.1:x", "127.0.0.1:99999")),
    "agent --driver-root": ANY,
    "agent --pod-label": ANY,
    "simulate-gpu --name": Bad(("", "Local", "a/b", "x" * 41)),
    "simulate-gpu --gpu": ANY,
    "simulate-gpu --instance": ANY,
    "simulate-gpu --reading": Bad(("", "celsius", "celsius=", "celsius=warm")),
    "simulate-gpu --break-driver": ANY,
    "simulate-gpu --update-driver": ANY,
    "doctor --context": _CONTEXT,
    "lint --context": Bad(("no-such",), "--live --kubeconfig config"),
    "lint --prometheus": _URL,
    "lint --window": _DURATION._replace(without=""),
    "lint --until": _UNTIL,
    "lint --price": Bad(("", "A100-80GB", "A100-80GB=much"), "--metrics use.csv"),
    "lint --explain": Bad(("", "GPU999")),
    "lint --exempt": Bad(("", "no-such")),
    "check --namespace": ANY,
    "check --context": _CONTEXT,
}
