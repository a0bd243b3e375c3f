"""Front ends: the command line, reports and the demo. They draw; the engine decides."""
