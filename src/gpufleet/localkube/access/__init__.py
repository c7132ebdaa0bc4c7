"""The way to a local cluster's API server: its port, certificates, kubeconfig, and a plain client."""
