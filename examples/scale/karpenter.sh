#!/bin/sh
# Runs Karpenter with its provider of simulated nodes beside the cluster of $KUBECONFIG: `make scale-programs` builds it.
# The folder scale-walk gets its log, and its process id in pid.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
built="${XDG_CACHE_HOME:-$HOME/.cache}/gpufleet/kube/karpenter-1.15.0"
mkdir -p scale-walk
kubectl apply -f "$built/definitions" >/dev/null
kubectl wait --for=condition=Established crd --all >/dev/null
# Port 0 is any free one.
DISABLE_LEADER_ELECTION=true SYSTEM_NAMESPACE=kube-system METRICS_PORT=0 HEALTH_PROBE_PORT=0 \
  KUBERNETES_MIN_VERSION=1.19.0-0 INSTANCE_TYPES_FILE_PATH="$here/types.json" \
  nohup "$built/karpenter-kwok" >scale-walk/log 2>&1 &
echo $! >scale-walk/pid
echo "Karpenter runs"
