"""The bundled data set: vulnerability reports and the products they affect. See NOTICE.txt for its sources."""

from importlib.resources import as_file, files

from haxmlnet.data import Corpus


def cve_small(split: str) -> Corpus:
    """Read the `train` (4,885 documents) or `test` (1,160 documents) split; 1,111 labels."""
    with as_file(files(__package__) / f"cve_small.{split}.jsonl.gz") as path:
        return Corpus.read(path)
