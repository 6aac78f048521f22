"""Where a network trains: one process or many, CPU or GPU."""
