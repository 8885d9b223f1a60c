"""The service of a collecting organisation: reports come in over HTTP, are stored exactly once, and
leave as one frozen data set.

    http/       serving -> listener -> guard -> application: a socket's bytes become a request
    intake/     service decides on reports by report_rules and commits them in groups
    storage/    store: what is promised, and how SQLite and PostgreSQL keep it alike
    collection  one collection by name: invitations, withdrawal, retention, the frozen data set

Guarantees
----------
- A report is acknowledged only after its transaction has reached the disk, and is counted once
  however often it is sent.
- The service sees labels that devices have already randomised; it never logs labels, features, ids
  or tokens.
- Nothing here randomises: this package cannot stand in for the device.
"""
