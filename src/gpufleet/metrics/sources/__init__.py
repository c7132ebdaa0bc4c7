"""Where values come from: agents, serving engines, the scheduler, Prometheus. Each is read when asked for."""
