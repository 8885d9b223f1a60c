"""The collection service of one server: reports come in over HTTP, are stored exactly once, and
leave as one frozen data set.

    app      HTTP in, HTTP out            openapi, metrics, operator, summary: what is read about it
    intake   decides on reports           rules: what a report must be; writer: one thread writes
    store    what is kept and promised    sqlite, postgres: two keepings of the same promise
    export   the frozen data set

Guarantees
----------
- A report is acknowledged only after its transaction has reached the disk, and is counted once
  however often it is sent.
- The service sees labels that devices have already randomised; it never logs labels, features, ids
  or tokens.
- Nothing here randomises: this room cannot stand in for the device.
"""
