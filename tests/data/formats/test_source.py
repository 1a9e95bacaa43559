"""An input file as lines."""

from format_samples import (
    TEXTS,
)

from haxmlnet.data.formats.source import open_source


def test_a_first_line_that_was_looked_at_is_given_once(write):
    with open_source(write({"a.txt": TEXTS})) as source:
        assert source.first_line() == source.first_line() == b"first text\n"
        assert [number for number, _ in source.lines()] == [1, 2]
        assert list(source.lines()) == []
