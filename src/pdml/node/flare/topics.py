"""Names that the executor and the controller share."""

TRAIN, FINISH = "pdml.train", "pdml.finish"  # tasks
STOP, PROGRESS = "pdml.stop", "pdml.progress"  # messages between the controller and the nodes
BYTES, SENTENCE = "pdml.bytes", "pdml.sentence"  # keys of what is sent
RESULT = "pdml_result.json"  # in the job's folder at the relay
