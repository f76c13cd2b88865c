"""The checksum in an event's file."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.repair.log_check import conforms
from faber.store import log, strict_json
from faber.store.store_errors import EventUnreadable

EVENT: Any = {
    "schema_version": 1,
    "event_id": 1,
    "type": "docs_update",
    "timestamp": "2026-01-01T00:00:00Z",
    "run_id": "r",
    "message": 'Ünïcode, "quotes" and \ud800',
    "metadata": {"checksum": "crc32:00000000"},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text().filter(lambda key: key != "checksum"), VALUES, min_size=1))
def test_what_is_encoded_is_read_back(value: Any) -> None:
    """Any value comes back as it was, by both readers, and is intact."""
    data = log.encode(value)
    assert log.decode(data) == log.decode(data, trusted=True) == value
    assert log.intact(data)


def test_no_flipped_bit_goes_unseen() -> None:
    """After any flipped bit the event is unreadable, violates its schema, or says the same as before."""
    plain = {**EVENT, "message": "Keep it"}
    data = log.encode(plain)
    unseen = []
    for at in range(len(data)):
        for bit in range(8):
            damaged = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            for trusted in (True, False):
                try:
                    value = log.decode(damaged, trusted=trusted)
                except strict_json.InvalidJSON:
                    continue
                if value != plain and conforms(value):
                    unseen.append(damaged)
    assert unseen == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"x"}',
        b'{"type":"x","checksum":"crc32:00000000","more":1}\n',
        b'{"type":"x","checksum":"crc32:00000000"}\n',
        b'{"type":"x","checksum":"crc32:"}\n',
        b'{"type":"x","type":"x"}',
    ],
)
def test_only_what_has_its_checksum_or_none_is_read(data: bytes, tmp_path: Path) -> None:
    """A file without a checksum is read as before; one with a wrong or moved checksum is not."""
    (tmp_path / "events").mkdir()
    (tmp_path / "events/000001-x.json").write_bytes(data)
    if b"checksum" not in data and data.count(b"type") == 1:
        assert log.read_event(str(tmp_path), "000001-x.json") == {"type": "x"}
    else:
        with pytest.raises(EventUnreadable):
            log.read_event(str(tmp_path), "000001-x.json")


def test_the_checksum_of_another_tool_is_a_key_like_any_other() -> None:
    """Another tool's log may have a key of that name."""
    assert log.decode(b'{"checksum":"sha256:ab"}') == {"checksum": "sha256:ab"}
    assert log.decode(b'{"checksum":7}') == {"checksum": 7}
