"""What people write by hand: strict YAML and tables, with the closest known name for a misspelt one."""
