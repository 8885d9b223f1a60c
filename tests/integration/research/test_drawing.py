"""The product's style for matplotlib hides the user's and leaves it alone."""

import subprocess
import sys
from io import BytesIO

import matplotlib
from matplotlib.figure import Figure

from pdml.research.paper.drawing import drawing


def drawn() -> bytes:
    with drawing("test"):
        figure = Figure()
        figure.add_subplot().plot([1, 2], label="µ")
        made = BytesIO()
        figure.savefig(made, format="svg", metadata={"Date": None})
    return made.getvalue()


def test_bytes_do_not_depend_on_the_users_style_which_is_left_alone():
    expected = drawn()
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert drawn() == expected
        assert dict(matplotlib.rcParams) == before


def test_pages_are_drawn_without_matplotlib():
    code = (
        "import sys\n"
        "from pdml.pages.training_page import Page, render\n"
        "render(Page(title='t', n_servers=2, edges=((0, 1),), source='simulated'))\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
