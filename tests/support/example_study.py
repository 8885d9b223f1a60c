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
# What people are told, for studies by which they are asked.
TOLD = """\
[organiser]
name = "City Hospital"
address = "1 Long Street, Ghent"
contact = "study@hospital.example"
data_protection_contact = "privacy@hospital.example"

[notice]
purpose = "To find out who is at risk."
legal_basis = "Your consent."
who_sees = "The hospital sees every answer but the last one."
retention = 2036-01-01T01:00:00+01:00
link = "https://hospital.example/notice"

[consent]
text = "I have read the notice, and I agree that my answers are used for this study."
version = "2026-03"
"""
# Open at any time, and without a plan.
STUDY = replace(Study.from_text(TEXT), opens=None, closes=None, plan=None)
ASKING = replace(Study.from_text(TEXT + TOLD), opens=None, closes=None, plan=None)
