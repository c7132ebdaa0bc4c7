"""What every long-running program of gpufleet does alike: how it logs, and where it listens."""
