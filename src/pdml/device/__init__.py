"""The contributor's side: everything that happens to a record before it leaves the person's device.
It knows no service from inside."""
