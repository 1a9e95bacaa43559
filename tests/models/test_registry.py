from __future__ import annotations

import subprocess
import sys

import pytest

from haxmlnet.errors import ModelError
from haxmlnet.models import METHODS, load_model
from haxmlnet.store import new_directory, write_header


def test_methods_are_known_by_the_name_of_their_class():
    assert {"HAXMLNet", "OneVsRestSVM"} <= set(METHODS)
    assert all(method.__name__ == name for name, method in METHODS.items())


def test_listing_the_methods_does_not_import_torch():
    code = "import sys; from haxmlnet.models import METHODS; list(METHODS); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_load_model_finds_the_method(tmp_path, new_hasty_model):
    model = new_hasty_model("OneVsRestSVM").fit(["red fish", "blue bird"], [["fish"], ["bird"]])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is METHODS["OneVsRestSVM"]
    assert loaded.predict(["a red fish"], k=1).labels.tolist() == [["fish"]]


@pytest.mark.parametrize("method", ["Nonesuch", None, ["HAXMLNet"]])
def test_an_unknown_method_is_refused(tmp_path, method):
    with new_directory(tmp_path / "model") as directory:
        write_header(directory, {"method": method})
    with pytest.raises(ModelError, match="this version does not know") as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_a_directory_that_is_missing_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no such model directory"):
        load_model(tmp_path / "nowhere")
