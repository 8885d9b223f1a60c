"""The one way to make HTML: text is text, and what was not given or not written is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import DictLoader, UndefinedError
from markupsafe import Markup

from pdml.formatting.markup import markdown_templates, plain_text, templates
from pdml.statement.document import Blank, Exact, Items, StatementTable, read_section


def render(source, **context):
    environment = templates("pdml.pages")
    environment.loader = DictLoader({"any.txt": source})
    return environment.get_template("any.txt").render(**context)


@given(text=st.text())
def test_text_comes_back_as_it_was_and_never_as_markup(text):
    for source in ("{{ text }}", '{% set copy = text ~ "" %}{{ copy }}'):
        shown = render(source, text=text)
        assert not set(shown) & set("<>\"'")
        assert Markup(shown).unescape() == plain_text(text)
        shown.encode()


@given(text=st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_what_can_be_printed_is_not_changed(text):
    assert plain_text(text.replace("\ufffe", "").replace("\uffff", "")) == text.replace(
        "\ufffe", ""
    ).replace("\uffff", "")


def test_what_html_cannot_carry_is_replaced_one_by_one():
    assert plain_text("a\x00b\x1b\ud800\ufffe\tc\n") == "a\ufffdb\ufffd\ufffd\ufffd\tc\n"


@pytest.mark.parametrize(
    "source", ["{{ nobody }}", "{{ here.nothing }}", "{% if nobody %}{% endif %}"]
)
def test_a_name_that_was_not_given_is_an_error(source):
    with pytest.raises(UndefinedError):
        render(source, here="here")


@pytest.mark.parametrize("value", [0.1, float("nan"), None, True, [1], b"bytes"])
def test_only_text_and_whole_numbers_are_printed(value):
    """A float has as many digits as people should read only after somebody has decided it."""
    with pytest.raises(TypeError, match="may print"):
        render("{{ value }}", value=value)
    assert render("{{ value }}", value=12) == "12"


SECTION = """# {{ text }}

*{{ text }}*

{{ text }}

% if text
- {{ text }}
- and {{ text }}
  {{ text }}
% endif

**{{ text }}**

| {{ text }} | {{ text }} |
| --- | --- |
% for cells in [(text, "b")]
{{ cells|row }}
% endfor

> To be filled in by the controller: {{ text }}.

```
{{ text }}  x
```
"""
marks = st.text("a1.-+|*_<>&`#[]\\~'{}%: \n", min_size=1, max_size=9).filter(str.strip)


@given(text=marks.map(lambda text: f"a{text}a") | marks.map(lambda text: f"{text.strip()}a"))
def test_no_value_changes_what_a_section_of_markdown_is_made_of(text):
    environment = markdown_templates("pdml.statement", "sections")
    environment.loader = DictLoader({"any": SECTION})
    shown = " ".join(text.split())
    section = read_section("any", environment.get_template("any").render(text=text))
    assert (section.heading, section.question) == (shown, shown)
    assert section.parts == (
        shown,
        Items((shown, f"and {shown} {shown}")),
        StatementTable(shown, (shown, shown), ((shown, "b"),)),
        Blank(shown),
        Exact((f"{shown}  x",)),
    )
