"""Between organisations: NVIDIA FLARE carries the messages of `pdml.node.party`; only this room imports nvflare.

provision   startup kits for every organisation, from the study
site        what a node's operator keeps in its kit, never shipped with a job
exchange    one node's part in a job: hello, rounds, timeouts; whoever carries the bytes is handed in
executor    that, inside FLARE's client
controller  FLARE's server: starts the job, gathers signed reports; it relays vectors that it cannot read
job, session, process   a job as files; submit, follow, stop; processes on this machine
"""
