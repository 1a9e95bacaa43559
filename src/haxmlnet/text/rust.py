"""What a word is, as the Rust `tokenizers` library is told it: the definition that every other part follows."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

# Scripts written without spaces give one word a character; every other run of letters and digits is a word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD_PATTERN = rf"[{_UNSPACED}]|[[\p{{L}}\p{{M}}\p{{N}}]&&[^{_UNSPACED}]]+"
SPECIAL_WORDS = ["[PAD]", "[UNK]"]


def rust_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """Make the library's tokenizer of the words with the ids given."""
    rust = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=SPECIAL_WORDS[1]))
    rust.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    rust.pre_tokenizer = word_splitter()
    return rust


def word_splitter() -> pre_tokenizers.PreTokenizer:
    """Make the part that cuts a normalised text into words."""
    return pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="removed", invert=True)
