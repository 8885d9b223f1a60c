"""The page of people needed: its words, its numbers, and nothing that runs but its own script."""

import json
import re

from people_forecasts import straight_forecast

from pdml.formatting.markup import policy_hash
from pdml.pages.planning_page import planning_page


def test_it_says_what_was_forecast_and_runs_its_own_script_alone() -> None:
    page = planning_page(straight_forecast(), 0.6).decode()
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.S)
    policy = f"script-src {policy_hash(script)}; style-src {policy_hash(style)};"
    assert policy in page.replace("&#39;", "'") and "http" not in re.sub(
        r"http-equiv|http://www.w3.org/2000/svg", "", page
    )
    data = json.loads(re.search(r"const forecast = (\{.*?\});\n", script)[1])  # type: ignore[index]
    assert data == json.loads(json.dumps(straight_forecast().to_dict() | {"target": 0.6}))
    for sentence in ("8 columns of known answers", "10% to 20% have it", "it would be 90.0%"):
        assert sentence in page
