"""From a plan to a verdict: prepare, run spans of blocks on threads, judge, write."""
