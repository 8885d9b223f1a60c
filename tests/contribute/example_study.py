"""A study for tests, and one person's answers as the form takes them."""

TEXT = '''
[study]
id = "hiv-2026"
title = "Who is at risk?"
description = """Three clinics want to learn who should be offered a test.
Nobody, not even the clinic that receives your answers, learns your diagnosis."""
[label]
question = "Have you ever been diagnosed with HIV?"
classes = ["no", "yes"]
epsilon = { menu = [0.4, 1.0, 2.0], default = 1.0 }
[[attributes]]
name = "age"
kind = "number"
range = [18, 100]
label = "How old are you?"
help = "In years."
[[attributes]]
name = "sex"
kind = "category"
levels = ["female", "male", "other"]
label = "Sex"
[[attributes]]
name = "region"
kind = "category"
levels = ["north", "east", "south", "west", "centre", "islands"]
label = "Where do you live?"
[[servers]]
name = "alice"
url = "https://alice.example"
[[servers]]
name = "bob"
url = "https://bob.example"
[[servers]]
name = "carol"
url = "https://carol.example"
[topology]
edges = [["alice", "bob"], ["bob", "carol"], ["carol", "alice"]]
'''
ABOUT = {"a0": "34", "a1": "0", "a2": "2"}  # 34 years, female, south
