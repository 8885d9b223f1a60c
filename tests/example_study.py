"""The study that tests share: as people write it, and as a value to vary with
`dataclasses.replace`.
"""

from dataclasses import replace

from pdml.study import Study

TEXT = """\
[study]
id = "hiv-2026"
title = "Who is at risk?"
description = "A survey."
opens = 2026-03-01T08:00:00+01:00
closes = 2026-06-01T00:00:00Z
min_records = 200

[label]
question = "Have you been diagnosed?"
classes = ["no", "yes"]
epsilon = { menu = [0.4, 1.0, 2.0], default = 1.0 }   # a floor

[[attributes]]
name = "age"
kind = "number"
range = [18, 100]

[[attributes]]
name = "sex"
kind = "category"
levels = ["female", "male", "other"]
label = "Your sex"

[[servers]]
name = "alice"
url = "https://alice.example"
[[servers]]
name = "bob"
url = "https://bob.example"
[[servers]]
name = "carol"
url = "http://127.0.0.1:8000/"

[topology]
edges = [["bob", "alice"], ["carol", "bob"]]

[budget]
features = { epsilon = 1.0, delta = 1e-6 }
labels = { epsilon = 0.1 }

[plan]
rounds = 60
noise_scale = [1, 2.5, 3]
"""
# Open at any time, and without a plan.
STUDY = replace(Study.from_text(TEXT), opens=None, closes=None, plan=None)
