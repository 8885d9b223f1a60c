"""Sliders of the page of people needed say what Python says."""

from pathlib import Path

from people_forecasts import straight_forecast
from selenium.webdriver.remote.webdriver import WebDriver

from pdml.pages.planning_page import planning_page

SET = """
const control = document.getElementById(arguments[0]);
control.value = arguments[1];
control.dispatchEvent(new Event("input"));
"""


def test_sliders_say_what_python_says(engine: WebDriver, tmp_path: Path) -> None:
    forecast = straight_forecast()
    (tmp_path / "plan.html").write_bytes(planning_page(forecast, 0.6))
    engine.get((tmp_path / "plan.html").as_uri())
    for servers, colluding, level in ((4, 3, 0), (4, 2, 1), (3, 1, 0), (2, 1, 1)):
        for name, value in (("servers", servers), ("colluding", colluding), ("epsilon", level)):
            engine.execute_script(SET, name, value)
        epsilon = forecast.epsilons[level]
        for target in (45, 58, 60.5, 80):
            engine.execute_script(SET, "target", target)
            answer = engine.find_element("id", "answer").text
            people = forecast.needed(target / 100, epsilon, servers, colluding)
            reached = "is not reached" if people is None else f"by about {people:,} people in all."
            assert f"{target:.1f}%" in answer and reached in answer, answer
            expected = forecast.expected(3_200, epsilon, servers, colluding)
            assert f"With 3,200 people {expected.middle:.1%} is expected" in answer
    assert len(engine.find_elements("css selector", "#chart path")) == 8
