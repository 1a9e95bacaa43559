from __future__ import annotations

from collections.abc import Callable

import pytest

from haxmlnet.text.tokenizer import rust_tokenizer


@pytest.fixture(scope="session")
def rust_words() -> Callable[[str], list[str]]:
    """Split a text as the Rust library does."""
    rust = rust_tokenizer({"[UNK]": 1})

    def split(text: str) -> list[str]:
        normal = rust.normalizer.normalize_str(text)
        return [word for word, _ in rust.pre_tokenizer.pre_tokenize_str(normal)]

    return split
