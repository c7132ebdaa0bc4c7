"""What the agent costs its node: memory, idle CPU, and how fast it answers a scrape, a kubelet, an Xid."""
