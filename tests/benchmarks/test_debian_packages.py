from __future__ import annotations

from benchmarks.debian_packages import documents_of, in_test, main, write_data_set

from benchmarks import debian_packages
from haxmlnet import Corpus

PACKAGES = """\
Package: oak-tools
Source: oak (1.2-3)
Depends: libc6 (>= 2.34), python3:any, oak-data (= 1.2-3) | oak-lite, oak-tools
Pre-Depends: dpkg (>= 1.15.6~)
Recommends: acorn
Suggests: beech
Description: tools for oaks
Description-md5: 11
Tag: role::program, interface::commandline,
 use::measuring

Package: bare
Description: needs nothing
Description-md5: 12

Package: elm
Depends: libc6
Description: a short line
Description-md5: 99
"""
TRANSLATIONS = """\
Package: oak-tools
Description-md5: 11
Description-en: tools for oaks
 They measure  trees.
 .
 And leaves.

Package: bare
Description-md5: 12
Description-en: needs nothing
"""


def test_a_package_is_its_description_with_needs_and_tags():
    documents = dict(documents_of(PACKAGES, TRANSLATIONS))
    assert list(documents) == ["oak", "elm"]
    assert documents["oak"] == {
        "id": "oak-tools",
        "text": "tools for oaks They measure trees. And leaves.",
        "labels": [
            "acorn", "dpkg", "interface::commandline", "libc6", "oak-data", "python3", "role::program",
            "use::measuring",
        ],
    }  # fmt: skip


def test_without_a_long_description_the_short_one_counts():
    assert dict(documents_of(PACKAGES, TRANSLATIONS))["elm"]["text"] == "a short line"


def test_packages_of_one_source_are_in_one_split(tmp_path):
    names = [f"source{number}" for number in range(200)]
    blocks = [
        f"Package: {name}-{part}\nSource: {name}\nDepends: x\nDescription: a {part}\n"
        for name in names
        for part in ("lib", "doc")
    ]
    counts = write_data_set("\n".join(blocks), TRANSLATIONS, tmp_path)
    train, test = (Corpus.read(tmp_path / f"{split}.jsonl.gz") for split in ("train", "test"))
    assert counts == {"train": len(train.ids), "test": len(test.ids)}
    assert {name.rsplit("-", 1)[0] for name in test.ids} == {name for name in names if in_test(name)}
    assert len(train.ids) + len(test.ids) == 400
    assert 20 < len(test.ids) < 180


def test_the_same_lists_give_the_same_files(tmp_path):
    for folder in ("a", "b"):
        write_data_set(PACKAGES, TRANSLATIONS, tmp_path / folder)
    for split in ("train", "test"):
        first, second = (tmp_path / folder / f"{split}.jsonl.gz" for folder in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()


def test_a_machine_without_apt_is_told_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(debian_packages, "APT", (str(tmp_path / "no-such-command"),))
    assert main([str(tmp_path / "out")]) == 2
    assert "Debian machine" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
