"""`faber response check|merge|prompt`: text in, JSON out, never a traceback."""

import io
import json
from contextlib import chdir, redirect_stderr, redirect_stdout

import pytest

from faber.cli import main


def faber(*arguments, stdin=b"", cwd="."):
    """The exit status and the answer of `faber response ARGUMENTS`."""
    out, words = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, chdir(cwd), redirect_stdout(out), redirect_stderr(words):
        patched.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        status = main(["response", *arguments])
    assert "Traceback" not in words.getvalue()
    return status, json.loads(out.getvalue())


@pytest.mark.parametrize(
    ("text", "options", "answer"),
    [
        ('{"a":1}', [], ["complete", False, None, None, None]),
        ('{"a":"hel', [], ["truncated", True, 5, '"a":"', None]),
        ("", [], ["truncated", True, 0, "", None]),
        ("{a}", [], ["malformed", False, None, None, {"message": "Expected a key or '}'", "position": 1}]),
        ("12", [], ["complete", False, None, None, None]),
        ("12", ["--stop-reason", "max_tokens"], ["truncated", True, 0, "", None]),
    ],
)
def test_check(text, options, answer):
    """The status of a response, with exit status 0 whichever it is."""
    status, said = faber("check", *options, stdin=text.encode())
    assert status == 0
    assert list(said.items()) == list(
        zip(["status", "truncated", "truncation_index", "last_valid_token", "error"], answer, strict=True)
    )


def test_check_says_what_stood_around_the_json(tmp_path):
    """A fence and prose are removed and named; the index is that in the JSON."""
    (tmp_path / "answer.md").write_text('Here:\n```json\n{"a": [1,')
    status, said = faber("check", "answer.md", cwd=tmp_path)
    assert (status, said["status"], said["truncation_index"]) == (0, "truncated", 9)
    assert said["envelope"] == {"prefix": "Here:\n```json\n", "suffix": "", "removed": ["prose before", "code fence"]}


ANY = ["--join", "consistent"]


@pytest.mark.parametrize(
    ("chunks", "options", "status", "answer"),
    [
        (['{"a":"hel', 'p me"}'], ANY, 0, {"merged": '{"a":"help me"}', "proofs": ["consistent"]}),
        (['{"a":"hel', '"a":"help', '"a":"help me"}'], [], 0, {"proofs": ["echo", "echo"]}),
        (['{"a":"hel', 'p me"}'], [], 1, {"code": "chunks_do_not_join", "reason": "no_echo"}),
        (['{"a":"hel', 'lo"}'], ANY, 1, {"reason": "ambiguous"}),
        (['{"a":[1,', "2"], ANY, 1, {"reason": "unfinished", "truncation_index": 8}),
        (['{"a":[1,', "2]}", "]"], ANY, 1, {"reason": "not_truncated"}),
        (['{"a":1}', "}"], [], 1, {"reason": "not_truncated", "status": "complete"}),
    ],
)
def test_merge(tmp_path, chunks, options, status, answer):
    """Chunks are joined in their order, or refused with a reason."""
    names = [f"{number}.txt" for number in range(len(chunks))]
    for name, text in zip(names, chunks, strict=True):
        (tmp_path / name).write_text(text)
    ended, said = faber("merge", *options, *names, cwd=tmp_path)
    assert ended == status
    said = said.get("error", said)
    assert answer.items() <= said.items()


def test_merge_reads_one_of_them_from_stdin(tmp_path):
    """`-` is stdin."""
    (tmp_path / "first").write_text('{"a":[1,')
    assert faber("merge", "first", "-", stdin=b'{"a":[1,2]}', cwd=tmp_path)[1]["merged"] == '{"a":[1,2]}'


def test_prompt():
    """The prompt, and the token in it."""
    status, said = faber("prompt", stdin=b'{"a":"hel')
    assert status == 0
    assert said["last_valid_token"] in said["prompt"]
    assert said["truncation_index"] == 5
    assert faber("prompt", stdin=b'{"a":1}')[0] == 1
    assert faber("prompt", "--stop-reason", "length", stdin=b"12")[0] == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\xe2\x82"}', "invalid continuation byte"),
        (b'\x00\x01{"a"', "binary"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(data, words):
    """Binary data and bytes that are not UTF-8 are usage errors that say where."""
    for command in ("check", "prompt"):
        status, said = faber(command, stdin=data)
        assert (status, said["error"]["code"]) == (2, "invalid_input")
        assert words in said["error"]["message"]


def test_bytes_that_are_cut_inside_a_character_are_read(tmp_path):
    """A source may cut bytes: what there is of the last character is left out, and said; never after complete JSON."""
    data = '{"a": "so gro\u00df"}'.encode()[:-3]
    (tmp_path / "first").write_bytes(data)
    status, said = faber("check", stdin=data)
    assert (status, said["status"], said["truncation_index"], said["cut_bytes"]) == (0, "truncated", 5, 1)
    assert faber("prompt", stdin=data)[1]["last_valid_token"] == said["last_valid_token"]
    whole = '{"a": "so groß"}'.encode()
    assert faber("merge", "first", "-", stdin=whole, cwd=tmp_path)[1]["merged"].encode() == whole
    for ended in (
        faber("check", stdin=whole + b"\xe2"),
        faber("merge", "first", "-", stdin=whole + b"\xe2", cwd=tmp_path),
    ):
        assert (ended[0], ended[1]["error"]["code"]) == (2, "invalid_input")
        assert "after the complete JSON" in ended[1]["error"]["message"]


@pytest.mark.parametrize("name", ["missing.json", ".", "nul\udcff"])
def test_what_is_no_file_is_refused(tmp_path, name):
    """A missing file, a directory and an impossible name are usage errors."""
    status, said = faber("check", name, cwd=tmp_path)
    assert (status, said["error"]["code"]) == (2, "invalid_input")


def test_the_limit(tmp_path):
    """A file past 64 MB is refused, without being read further."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    status, said = faber("check", "large", cwd=tmp_path)
    assert (status, said["error"]["code"], said["error"]["limit"]) == (2, "response_too_large", 64 * 1024 * 1024)


BOMB = {"$defs": {"d0": {}}, "$ref": "#/$defs/d40"}
BOMB["$defs"].update({f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 41)})


@pytest.mark.parametrize(
    ("schema", "text"),
    [({"pattern": "^(a+)+$"}, json.dumps("a" * 60 + "b")), (BOMB, "1")],
    ids=["pattern", "references"],
)
def test_a_schema_that_takes_for_ever_is_ended(tmp_path, schema, text):
    """A pattern or references that explode end at the time limit, by name and not by a person."""
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    status, said = faber(
        "validate", "--schema", "schema.json", "--time-limit", "0.5", "-", stdin=text.encode(), cwd=tmp_path
    )
    assert (status, said["error"]["code"]) == (1, "validation_timeout")
