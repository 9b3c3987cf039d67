"""Many trace files into one."""

import json
from pathlib import Path

from refusals import refuses

from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.pack import pack_corpus


def session(name: str) -> dict[str, object]:
    request = {"t": 0.0, "type": "n", "model": "m", "in": 70, "out": 3, "hash_ids": [1], "x": 9}
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": [request]}


def corpus(directory: Path, *names: str) -> Path:
    directory.mkdir()
    for name in names:
        (directory / f"{name}.json").write_text(json.dumps(session(name), indent=2))
    return directory


def test_a_packed_corpus_is_the_same_corpus(tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "b", "a")
    packed = tmp_path / "all.jsonl.gz"
    assert pack_corpus(source, packed) == 2
    assert [s.id for s in read_corpus(packed).sessions] == ["a", "b"]
    assert read_corpus(packed).fingerprint == read_corpus(source).fingerprint
    # Unknown keys are kept: they are counted, as before.
    assert read_corpus(packed).sessions[0].notes == read_corpus(source).sessions[0].notes


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "a")
    for name in ("one", "two"):
        pack_corpus(source, tmp_path / f"{name}.jsonl.gz")
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()


def test_a_file_that_exists_or_has_another_name_is_refused(tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "a")
    taken = tmp_path / "taken.jsonl.gz"
    taken.write_text("mine")
    with refuses("pack-exists"):
        pack_corpus(source, taken)
    assert taken.read_text() == "mine"
    with refuses("pack-name-unfit", ".jsonl.gz"):
        pack_corpus(source, tmp_path / "all.tar")


def test_a_session_that_cannot_be_read_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "a")
    (source / "z.json").write_text("{}")
    with refuses("trace-malformed", "z.json"):
        pack_corpus(source, tmp_path / "all.jsonl.gz")
    assert not (tmp_path / "all.jsonl.gz").exists()
