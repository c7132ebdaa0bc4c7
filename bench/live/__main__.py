import sys
from bench.live.arena import arena
from bench.live import trials
from bench.live.contender import BOTH
from bench.live.objects import Workload
nodes, pods, gang = map(int, sys.argv[1:4])
with arena(nodes) as here:
    for _ in range(int(sys.argv[4])):
        for who in BOTH:
            print(trials.burst(here, who, nodes, Workload(pods, gang)), flush=True)
