"""Ways to damage a file: each takes its bytes, a random generator and another file of the same format."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from tests.fuzz.records import BOM

Mutation = Callable[[bytes, Random, bytes], bytes]
LARGEST = 1 << 20
PIECES = [
    b"\n", b"\r", b"\r\n", b"\n\n", b"\t", b" ", b",", b";", b":", b"|", b'"', b'""', b"'", b"\\", b"\\ud800",
    b"\\u0000", b"\\n", b"{", b"}", b"[", b"]", b"[]", b"{}", b"<", b">", b"<>", b"null", b"true", b"NaN", b"-", b".",
    b"e9", b"0", b"-1", b"\0", b"\xff", b"\xfe\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3\xa4",
    b"\xe2\x80\xa8", b"\xc2\x85", b"\x1a", b"\x0b", b"\x0c", b"\x1c", BOM, b"__label__", b"__label__ ", b"PAR1",
    b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b'"labels": [],', b'"text": "x",', b'"id": 1.5,', b"#", b"%",
]  # fmt: skip
NUMBERS = [
    b"0", b"-1", b"-0", b"1", b"2147483647", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775807",
    b"9223372036854775808", b"18446744073709551616", b"1e309", b"1e400", b"-1e9", b"NaN", b"Infinity", b"nan", b"inf",
    b"0x10", b"1_0", b"0.5", b"1.", b".", b"+1", b"01", b"1" * 400, b"9" * 5000, "٣".encode(), b"",
]  # fmt: skip
SEPARATORS = [b",", b"\t", b";", b" ", b"|", b":", b"\n", b"\r\n", b"\r"]


def mutate(content: bytes, rng: Random, other: bytes, n_mutations: int) -> bytes:
    """Apply several mutations."""
    for _ in range(n_mutations):
        content = rng.choice(MUTATIONS)(content, rng, other)[:LARGEST]
    return content


def _place(content: bytes, rng: Random) -> int:
    return rng.randrange(len(content) + 1)


def flip_bit(content: bytes, rng: Random, other: bytes) -> bytes:
    """Flip one bit."""
    if not content:
        return content
    damaged = bytearray(content)
    damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def replace_bytes(content: bytes, rng: Random, other: bytes) -> bytes:
    """Write random bytes over some."""
    at, piece = _place(content, rng), rng.randbytes(rng.randrange(1, 5))
    return content[:at] + piece + content[at + len(piece) :]


def replace_letter(content: bytes, rng: Random, other: bytes) -> bytes:
    """Write a letter over one, which keeps the structure of the file."""
    letters = [match.start() for match in re.finditer(rb"[A-Za-z]", content[:5_000])]
    if not letters:
        return content
    at = rng.choice(letters)
    return content[:at] + bytes([rng.choice(b"abcXYZ019")]) + content[at + 1 :]


def insert_piece(content: bytes, rng: Random, other: bytes) -> bytes:
    """Insert what means something to a format, over up to two bytes."""
    at, n_dropped = _place(content, rng), rng.choice((0, 0, 0, 1, 2))
    return content[:at] + rng.choice(PIECES) + content[at + n_dropped :]


def insert_bytes(content: bytes, rng: Random, other: bytes) -> bytes:
    """Insert random bytes."""
    at = _place(content, rng)
    return content[:at] + rng.randbytes(rng.randrange(1, 9)) + content[at:]


def delete_range(content: bytes, rng: Random, other: bytes) -> bytes:
    """Drop some bytes."""
    at = _place(content, rng)
    return content[:at] + content[at + rng.choice((1, 1, 2, 8, 40)) :]


def duplicate_range(content: bytes, rng: Random, other: bytes) -> bytes:
    """Repeat some bytes."""
    at, stop = sorted((_place(content, rng), _place(content, rng)))
    return content[:stop] + content[at:stop] * rng.choice((1, 1, 1, 5)) + content[stop:]


def cut_end(content: bytes, rng: Random, other: bytes) -> bytes:
    """Lose the end."""
    return content[: _place(content, rng)]


def cut_start(content: bytes, rng: Random, other: bytes) -> bytes:
    """Lose the beginning."""
    return content[_place(content, rng) :]


def splice(content: bytes, rng: Random, other: bytes) -> bytes:
    """Go on with another file in the middle."""
    return content[: _place(content, rng)] + other[_place(other, rng) :]


def append_other(content: bytes, rng: Random, other: bytes) -> bytes:
    """Append another file, or the same again."""
    return content + rng.choice((content, other))


def change_separator(content: bytes, rng: Random, other: bytes) -> bytes:
    """Replace one separator by another, once or everywhere."""
    old, new = rng.choice(SEPARATORS), rng.choice(SEPARATORS)
    return content.replace(old, new, rng.choice((1, 2, -1)))


def change_line_ends(content: bytes, rng: Random, other: bytes) -> bytes:
    """Replace all line ends."""
    return content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b" \n", b"\r\r\n")))


def mark_start(content: bytes, rng: Random, other: bytes) -> bytes:
    """Begin with a byte order mark, a blank line or a space."""
    return rng.choice((BOM, BOM + BOM, b"\n", b"\r\n", b" ", b"\0", b"\xff\xfe", b"#")) + content


def drop_last_line_end(content: bytes, rng: Random, other: bytes) -> bytes:
    """End without a line end, or with blank lines."""
    return content.rstrip(b"\n") + rng.choice((b"", b"\n\n\n", b" ", b"\r\n", b"\0", b"\x1a"))


def change_lines(content: bytes, rng: Random, other: bytes) -> bytes:
    """Drop, repeat or exchange lines."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[to])
        case _:
            lines[at], lines[to] = lines[to], lines[at]
    return b"".join(lines)


def change_number(content: bytes, rng: Random, other: bytes) -> bytes:
    """Replace a number, often one of the header."""
    numbers = list(re.finditer(rb"[+-]?\d{1,18}(\.\d+)?", content[:5_000]))
    if not numbers:
        return content
    match = rng.choice(numbers[:3] if rng.random() < 0.5 else numbers)
    new = str(int(float(match[0])) + rng.choice((-1, 1))).encode() if rng.random() < 0.4 else rng.choice(NUMBERS)
    return content[: match.start()] + new + content[match.end() :]


def nest(content: bytes, rng: Random, other: bytes) -> bytes:
    """Insert brackets that are never closed."""
    at = _place(content, rng)
    return (
        content[:at] + rng.choice((b"[", b'{"a":', b'"', b"<", b"(")) * rng.choice((3, 2_000, 100_000)) + content[at:]
    )


def lengthen(content: bytes, rng: Random, other: bytes) -> bytes:
    """Repeat all of it, or one piece, past the sizes of buffers."""
    if rng.random() < 0.5:
        return content * rng.choice((2, 40, 1 + 140_000 // max(len(content), 1)))
    at = _place(content, rng)
    return content[:at] + rng.choice(PIECES) * rng.choice((5_000, 70_000)) + content[at:]


def keep_whole(content: bytes, rng: Random, other: bytes) -> bytes:
    """Leave the file whole."""
    return content


MUTATIONS: list[Mutation] = [
    flip_bit, replace_bytes, replace_letter, replace_letter, insert_piece, insert_piece, insert_piece, insert_bytes,
    delete_range, duplicate_range, cut_end, cut_start, splice, append_other, change_separator, change_line_ends,
    mark_start, drop_last_line_end, change_lines, change_number, change_number,
]  # fmt: skip
RARE_MUTATIONS: list[Mutation] = [nest, lengthen, keep_whole]
"""Slow to read, or of little use more often."""
