"""What every long-running program of gpufleet does alike: how it logs, where it listens, what ends it."""
