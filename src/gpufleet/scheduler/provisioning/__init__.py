"""Gangs ask Cluster Autoscaler for their nodes together, by ProvisioningRequests."""
