"""What people read: a run's report, figures as text, progress."""
