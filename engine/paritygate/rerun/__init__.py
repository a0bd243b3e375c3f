"""Run a finished run's failing samples again, and say whether it comes out as it did."""
