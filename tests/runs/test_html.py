"""Parts of pages."""

from __future__ import annotations

from sts_lightning.runs.html import sorting_script, text_table


def test_a_table_escapes_what_it_is_given() -> None:
    text = text_table(["<h>", "n"], [["<b>a</b>", "1"]], words=1)
    assert "<th class=word>&lt;h&gt;</th><th>n</th>" in text
    assert "<td class=word>&lt;b&gt;a&lt;/b&gt;</td><td>1</td>" in text


def test_a_table_is_sorted_by_buttons_and_a_script_of_the_page() -> None:
    assert '<th><button type="button">n</button></th>' in text_table(["n"], [], words=0, sortable=True)
    script = sorting_script()
    assert script.count("<script>") == script.count("</script>") == 1
    assert 'querySelectorAll("th button")' in script
