"""Which test types the commands of a page, and the few commands that none types, each with its reason."""

TYPED = {
    "README.md": "tests/localkube/test_page_walks.py",
    "docs/admission.md": "tests/admission/test_page.py",
    "docs/advise-sharing.md": "tests/advise/sharing/test_command.py",
    "docs/commands.md": "tests/cli/test_page_commands.py",
    "docs/cost.md": "tests/cli/test_page_commands.py",
    "docs/cost-walk.md": "tests/cli/test_page_commands.py",
    "docs/cuda.md": "tests/advise/cuda/test_command.py",
    "docs/dashboards.md": "tests/cli/test_page_commands.py",
    "docs/defragmentation.md": "tests/defragment/test_defragment_on_a_real_server.py",
    "docs/doctor.md": "tests/localkube/test_doctor_walk.py",
    "docs/drain.md": "tests/drain/test_on_a_real_server.py",
    "docs/explain.md": "tests/localkube/test_page_walks.py",
    "docs/fleet-policies.md": "tests/cli/test_policy.py",
    "docs/fit.md": "tests/fit/test_cluster.py",
    "docs/getting-started.md": "tests/localkube/test_page_walks.py",
    "docs/gpu-walk.md": "tests/localkube/test_gpu_walk.py",
    "docs/guides-walk.md": "tests/localkube/test_page_walks.py",
    "docs/install.md": "tests/chart/test_installed.py",
    "docs/lint.md": "tests/lint/test_walk.py",
    "docs/local-cluster.md": "tests/localkube/test_page_walks.py",
    "docs/metrics-apis.md": "tests/localkube/test_autoscaling_walk.py",
    "docs/moving-from-kai.md": "tests/migration/test_guides.py",
    "docs/moving-from-kueue.md": "tests/migration/test_guides.py",
    "docs/moving-from-scheduler-plugins.md": "tests/migration/test_guides.py",
    "docs/moving-from-volcano.md": "tests/migration/test_guides.py",
    "docs/moving-to-queues.md": "tests/cli/test_page_commands.py",
    "docs/mig.md": "tests/repartition/test_mig_plan.py",
    "docs/operate-walk.md": "tests/localkube/test_operate_walk.py",
    "docs/parking.md": "tests/operator/parking/test_parking_on_a_real_server.py",
    "docs/plan-history.md": "tests/cli/test_page_commands.py",
    "docs/plan.md": "tests/localkube/test_page_walks.py",
    "docs/projects.md": "tests/operator/projects/test_page.py",
    "docs/queues-walk.md": "tests/localkube/test_queues_walk.py",
    "docs/replay.md": "tests/cli/test_page_commands.py",
    "docs/scale-walk.md": "tests/karpenter/test_scale_walk.py",
    "docs/scenarios.md": "tests/cli/test_page_commands.py",
    "docs/see-walk.md": "tests/localkube/test_see_walk.py",
    "docs/snapshots.md": "tests/localkube/test_page_walks.py",
    "docs/standards.md": "tests/chart/test_standards.py",
    "docs/top.md": "tests/localkube/test_page_walks.py",
    "docs/whatif.md": "tests/localkube/test_page_walks.py",
    "examples/README.md": "tests/localkube/test_page_walks.py",
}

_CI = "takes minutes; CI runs what it checks as tests of its own"
_OWN_NODE = "names a node of the reader's own cluster"
_SCRAPED = "needs what a Prometheus has scraped; tests/ledger types it against a real one"
_WHOLE_MONTHS = "needs a cluster's months; tests/cli/test_close_month.py closes some"
_OWN_CLUSTER = "is for a cluster of the reader's own"
_DAEMON = "runs until it is ended"
_REAL_NODE = "needs root; tests/localkube/test_real_node.py runs pods on such a node"
_OTHER_PROGRAM = "needs a program or server that gpufleet does not ship"
_OWN_IMAGE = "needs the image on the nodes; tests/chart/test_installed.py installs it with values of its own"
_LINT = "tests/lint gives clusters, metrics and rules to the command"
_LARGER = "shows an answer about a larger fleet than a page can build"

UNTYPED: dict[str, dict[str, str]] = {
    "CONTRIBUTING.md": {
        "make setup     # fills .venv, compiles the kernels": _CI,
        "make test      # style, types, layers, documents, tests: the same that CI runs": _CI,
    },
    "README.md": {
        "make demo    # replays a production trace of 1,213 GPU nodes,"
        " and writes a report to build/demo": _CI,
        "make test    # everything that CI checks": _CI,
    },
    "docs/advise-sharing.md": {
        "gpufleet advise sharing --prometheus https://prometheus.example.com --window 7d"
        " --prometheus-token-file token": _OTHER_PROGRAM,
    },
    "docs/agent.md": {
        "gpufleet agent --node-name gpu-17": _DAEMON,
        "kubectl describe node gpu-17": _OWN_NODE,
        "kubectl get nodedevices": _OWN_CLUSTER,
        "kubectl get nodedevices gpu-17 -o"
        ' jsonpath=\'{range .spec.devices[*]}{.id}{" "}{.taints}{"\\n"}{end}\'': _OWN_NODE,
        "gpufleet simulate-gpu --gpu 0 --xid 79": _REAL_NODE,
        "gpufleet simulate-gpu --gpu 0 --reset": _REAL_NODE,
        "gpufleet simulate-gpu --gpu 3 --hang": _REAL_NODE,
        "gpufleet simulate-gpu --gpu 3 --release": _REAL_NODE,
        "gpufleet simulate-gpu --gpu 1 --flap 20": _REAL_NODE,
        'gpufleet simulate-gpu --break-driver "Driver/library version mismatch"': _REAL_NODE,
        "gpufleet simulate-gpu --update-driver 590.44.01": _REAL_NODE,
        "gpufleet simulate-gpu": _REAL_NODE,
    },
    "docs/cost.md": {
        "gpufleet cost --prices prices.csv --save seen.ledger": _OWN_CLUSTER,
        "gpufleet cost --prices prices.csv --save seen.ledger > /dev/null": _OWN_CLUSTER,
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set ledger.enabled=true": _OWN_CLUSTER,
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set ledger.enabled=true --set ledger.database.url=postgresql://gpufleet@db.example.com/ledger"
        " --set ledger.database.passwordSecret=ledger": _OWN_CLUSTER,
        "gpufleet cost postgresql://reader@db.example.com/ledger --prices prices.csv --from 2026-10-01"
        " --by queue": "needs PostgreSQL; tests/ledger/database types it against a real one",
        "gpufleet cost charges/*.parquet --unusual --by queue": _WHOLE_MONTHS,
        "gpufleet cost october.ledger --prices prices.csv --from 2026-10-01 --by bucket"
        " --prometheus http://prometheus:9090 --save october.ledger": "needs a Prometheus;"
        " tests/ledger/test_measured_use.py types it against a real one",
        "gpufleet cost --past --prometheus http://prometheus:9090 --prices prices.csv --from 2026-09-01"
        " --until 2026-10-01 --by team": "needs a Prometheus; tests/ledger/test_past.py types it against a"
        " real one",
        "gpufleet close-month 2026-10 2026-10.parquet --prices prices.csv --bill october.csv"
        " --accounts accounts": _WHOLE_MONTHS,
        "gpufleet close-month 2026-11 2026-10.parquet 2026-11.ledger --prices prices.csv --bill october.csv"
        " --bill november.csv --correct 2026-10 --accounts accounts": _WHOLE_MONTHS,
        "gpufleet cost accounts/*.charges.parquet --from 2026-10-01 --by queue": _WHOLE_MONTHS,
        "gpufleet cost october.ledger --prices prices.csv --from 2026-10-01"
        " --prometheus http://prometheus:9090 --per-million-tokens": _SCRAPED,
        "gpufleet cost october.ledger --prices prices.csv --by team --prometheus http://prometheus:9090"
        " --grid-intensity 381": _SCRAPED,
        "kubectl create configmap budgets -n gpufleet-system --from-file=prices.csv"
        " --from-file=budgets.csv": _OWN_CLUSTER,
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set ledger.budgets.configMap=budgets": _OWN_CLUSTER,
        "kubectl get fq research -o jsonpath='{.status.budget}'": _OWN_CLUSTER,
        "kubectl exec -n gpufleet-system deployment/gpufleet-ledger --"
        " gpufleet cost /var/lib/gpufleet/2026-11.ledger --by bucket": _OWN_CLUSTER,
    },
    "docs/cuda-compatibility.md": {
        "gpufleet explain trainer-0": "needs a node with an old driver; tests/explain/causes has such a pod",
    },
    "docs/device-access.md": {
        "kubectl label namespace gpu-operator gpufleet.io/device-access=all": _OWN_CLUSTER,
    },
    "docs/doctor.md": {
        "kubectl create clusterrolebinding doctor --clusterrole=gpufleet-doctor"
        " --group=platform": _OWN_CLUSTER,
    },
    "docs/explain.md": {
        "gpufleet explain tts-2": _LARGER,
    },
    "docs/faults-live.md": {
        "make chaos                                  # all faults, then leaders that die in a burst": _CI,
        "make chaos FAULT=watch-cut,two-leaders      # some faults, in this order": _CI,
        "make chaos SEED=7 STRETCH=4                 # other chances;"
        " each fault acts four times as long": _CI,
        'make soak-live SEEDS="11 12 13"             # ten times as long, seed after seed': _CI,
    },
    "docs/getting-started.md": {
        "make demo": _CI,
    },
    "docs/gpu-shares.md": {
        "kubectl get nodedevices gpu-17 -o yaml": _OWN_NODE,
        "make soak-agent": _CI,
    },
    "docs/install.md": {
        "make image": _CI,
        "kubectl get fleetpolicies -o"
        " jsonpath='{range .items[*]}{.spec.driver.image}"
        '{"\\n"}{.spec.runtime.image}{"\\n"}{end}\'': _OWN_CLUSTER,
        "helm install gpufleet charts/gpufleet --namespace gpufleet-system --create-namespace": _OWN_IMAGE,
        "helm test gpufleet --namespace gpufleet-system --logs": _OWN_IMAGE,
        "gpufleet check": _OWN_IMAGE,
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system"
        " --set scheduler.replicas=0": _OWN_IMAGE,
        "kubectl --namespace gpufleet-system rollout status daemonset"
        " --selector=app.kubernetes.io/name=gpufleet": _OWN_IMAGE,
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system": _OWN_IMAGE,
        "ctr --namespace=k8s.io images import build/image/gpufleet.tar": _OWN_NODE,
        "kubectl label namespace gpufleet-system pod-security.kubernetes.io/enforce=privileged": _OWN_CLUSTER,
    },
    "docs/lint.md": {
        "gpufleet lint --explain GPU021": _LINT,
        "kubectl get nodes,runtimeclasses,pods -A -o yaml > cluster.yaml": _LINT,
        "gpufleet lint examples/broken --cluster cluster.yaml --fail-on never": _LINT,
        "gpufleet lint examples/broken --metrics examples/advise/use.csv --price A100-80GB=2.50 --fail-on never": _LINT,  # noqa: E501 - as on the page
        "gpufleet lint manifests --prometheus https://prometheus.example.com --window 7d": _OTHER_PROGRAM,
        "gpufleet lint --exempt kube-score > kube-score.txt": _OTHER_PROGRAM,
        "kube-score score $(grep -v '^#' kube-score.txt) manifests/*.yaml": _OTHER_PROGRAM,
        "gpufleet lint manifests": _OTHER_PROGRAM,
        "GPUFLEET_PUBLIC_MANIFESTS=FOLDER pytest tests/lint/test_public_manifests.py": _OTHER_PROGRAM,
    },
    "docs/expander.md": {
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set expander.enabled=true": _OWN_IMAGE,
    },
    "docs/metrics-apis.md": {
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set metricsApis.enabled=true": _OWN_IMAGE,
    },
    "docs/moving-to-queues.md": {
        "gpufleet import kai                 # from the cluster of the kubeconfig": _OTHER_PROGRAM,
        "kubectl get queues.scheduling.volcano.sh,nodes -o yaml | gpufleet import volcano -": _OTHER_PROGRAM,
    },
    "docs/queue-figures.md": {
        "python -m bench.queues --add kai thousand": "measures for an hour",
    },
    "docs/parking.md": {
        "kubectl annotate namespace team-a gpufleet.io/park-after=2h": _OWN_CLUSTER,
    },
    "docs/top.md": {
        "gpufleet top idle --prometheus https://prometheus.example.com"
        " --prometheus-token-file token": _OTHER_PROGRAM,
    },
    "docs/web.md": {
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set web.enabled=true": "tests/chart/test_workloads.py renders it",
        "kubectl -n gpufleet-system port-forward service/gpufleet-web 9480:80": "serves until it is ended",
        "gpufleet web": "serves until it is ended; tests/web/test_on_a_real_server.py runs it",
    },
    "docs/queues.md": {
        "gpufleet queues": _LARGER,
        "gpufleet queues --queue speech": _LARGER,
    },
    "docs/scenarios.md": {
        "gpufleet scenario run scenarios": "takes a minute; tests/scenario/test_shipped.py plays these files",
    },
    "docs/replay.md": {
        "gpufleet replay --seed 42..141 --policy fgd,gpufleet,best-fit --ray auto --json sweep.json": (
            "needs a cluster of Ray, and an hour"
        ),
    },
    "docs/scale-walk.md": {"make scale-programs": _CI},
    "docs/security.md": {
        "kubectl get namespaces,nodes,fleetqueues,nodedevices,priorityclasses,pods -A -o json"
        " | python -m gpufleet.auditor": "needs nodes with agents that report who holds what",
    },
    "docs/sharing.md": {
        "kubectl get events --field-selector involvedObject.kind=Node": _OWN_CLUSTER,
        "gpufleet scheduler --evict-memory-offenders": _DAEMON,
    },
}
