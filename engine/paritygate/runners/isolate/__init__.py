"""Runners in a process of their own: what ends that process costs samples and not the run."""
