"""Tables for people at a terminal or in a notebook."""

from pdml.formatting.notebook import Sheet, as_html, as_text

SHEET = Sheet(caption="what", columns=("a", "long name"), rows=(("1", "x"), ("<b>", "yy")))


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert as_text("Title", [SHEET], ["A note."]).split("\n") == [
        "Title",
        "",
        "what",
        "a    long name",
        "1    x",
        "<b>  yy",
        "",
        "A note.",
    ]
    assert as_text("Title", [Sheet(columns=("a",), rows=())]) == "Title\n\na"


def test_html_shows_text_and_obeys_none_of_it() -> None:
    page = as_html("<script>alert(1)</script>", [SHEET], ["5 < 6"])
    assert "<script>" not in page and "&lt;b&gt;" in page and "5 &lt; 6" in page
    assert page.count("<tr>") == 3 and "<caption>what</caption>" in page


def test_html_takes_the_colours_of_the_page_around_it() -> None:
    """Light or dark: nothing of ours has a colour of its own but half-transparent lines."""
    style = as_html("t", [SHEET]).split("<style>")[1].split("</style>")[0]
    assert "color: inherit" in style and "#" not in style and "background: transparent" in style
    assert "http" not in as_html("t", [SHEET])
