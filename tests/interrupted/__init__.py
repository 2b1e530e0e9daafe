"""A class run that is killed, runs out of disk, or finds its gradebook locked: the next one completes it."""
