"""Which GPU a process group should be bound to, and when."""
