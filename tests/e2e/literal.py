"""A model that knows nothing of faber: it does what it is told in the client's requests, word for word.

Every answer is a function of one request, so it remembers what a model would: after a compaction or in a new session
nothing but what the request holds. It reads English only as far as these habits go:

* a numbered step, a line that begins with "Before you" or a line `Label: command` with a command in it is done, in
  order (one labelled "Before …" first); what begins with "If" or "On", or lies in a table, is not;
* a file that it is told to read is read, and a command whose answer is no JSON has told it more;
* of a JSON answer, the commands are run whose keys it was told to run (`` run `complete_with` ``), in the order in
  which they were named, the work of `instruction` before the last one; of an error, the first command of `recovery`;
* options that it was told of (`` `--message "…"` ``) are added where it has something to say in them;
* a skill that its client shows as it lies on the disk is read as it says there: its placeholders are filled in with the
  folder that the client named and what the person typed, and its inlined commands are run first.

`hands` does the work that an instruction asks for: the craft of a model that writes software, nothing of faber's.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from e2e.replies import Reply, ToolUse, call, text, tool
from e2e.request import Request


class Made(NamedTuple):
    """What an instruction came to: tool calls in order, artifacts by name, one sentence, decisions."""

    calls: Sequence[Reply] = ()
    artifacts: Mapping[str, str] = {}
    message: str = "Done as the instruction says."
    decisions: Sequence[str] = ()
    failure: str = ""  # why it cannot be done


Hands = Callable[[str, Mapping[str, Any]], Made]

_SPAN = re.compile(r"`([^`\n]+)`")
_RUN_KEY = re.compile(r"\b[Rr]un `([a-z_]+)`")
_STOP = re.compile(r"^- `(\w+)`:[^\n]*\bstop\b", re.MULTILINE)
_OPTION = re.compile(r"`(--[a-z-]+)(?:[ =][^`]*)?`")
_READ = re.compile(r"\b[Rr]ead(?: and follow)?[^`.\n]*`(/[^`\n]+)`")
_COMMAND = re.compile(r"""(?:"/[^"]+"|'/[^']+'|/\S+|[a-z][a-z0-9_-]*)(?: .*)?$""")
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINED = re.compile(r"^!`([^`\n]+)`$", re.MULTILINE)
_STEP = re.compile(r"^\s*\d+\. ")
# The line that the client puts above a skill names a folder.
_LABEL = re.compile(r"""^(?!Base directory)(?P<label>[A-Z][^:`]*): (?P<command>(?:"/[^"]+"|'/[^']+'|/\S+) [^`]*)$""")
_CONDITION = re.compile(r"^\s*(?:\d+\.|[-*]|\|)?\s*\**(?:If|On|Unless|When)\b")
_UNFILLED = re.compile(
    r"\bIf placeholders below are not filled in: the plugin's root is `(?P<path>\.\.\S*)` from this file's folder"
)
_FOLDER = re.compile(
    r"(?:\bBase directory for this skill: |<path>)(?:file://)?(?P<folder>/[^\n<]*?)(?:/SKILL\.md)?(?:</path>|\n)"
)
_CALLED = re.compile(r"\A\s*[$/](?:[\w-]+[:/])?[\w-]+ +(?P<words>\S.*)", re.DOTALL)
_AS_IT_IS = re.compile(r"If the step is to ([^,`]+), run `\w+` as it is")
_NAME = re.compile(r"\bNAME\b")
_URL = re.compile(r"\bURL\b")
_BLANK = re.compile(r"<([^<>`]+)>")


@dataclass
class Happened:
    """One thing of a conversation: words that were said to the model, or a call of a tool and its result."""

    said: str = ""
    by_person: bool = False
    name: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    result: str | None = None
    failed: bool = False

    @property
    def command(self) -> str:
        """The shell command of the call."""
        return str(self.given.get("command", ""))

    @property
    def answer(self) -> dict[str, Any] | None:
        """The JSON object in the result; None if there is none."""
        start = (self.result or "").find("{")
        if start < 0:
            return None
        try:
            found, _ = json.JSONDecoder().raw_decode((self.result or "")[start:])
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def no_work(instruction: str, answer: Mapping[str, Any]) -> Made:
    """Hands for instructions that ask for no file."""
    return Made()


class LiteralAgent:
    """Answers requests; `script.always(LiteralAgent(hands))`."""

    def __init__(
        self, hands: Hands = no_work, *, branch: str = "feat/csv", patience: int = 1, reads_system: bool = False
    ) -> None:
        self.hands = hands
        self.reads_system = reads_system  # a subagent's orders are in its system prompt
        self.branch = branch  # the name of a branch that it is told to make
        self.address = "https://example.invalid/acme/project/pull/7"  # of what it opens by hand
        self.patience = patience

    def __call__(self, request: Request) -> Reply:
        """The model's next response."""
        happened = conversation(request)
        if self.reads_system:
            happened.insert(0, Happened(said=request.system))
        happened = _filled_in(happened)
        turn = _since_prompt(happened)
        if _refused_in_a_row(turn) >= self.patience:
            return text("I was refused and stop.")
        told = "\n".join(_told(happened))
        answers = [each.answer for each in turn if each.name == "Bash"]
        if answers and answers[-1] and set(_STOP.findall(told)) & {answers[-1].get("action")}:
            return text(_report(turn))
        action = self._follow(told, turn) or self._work_off(happened, turn)
        return action or text(_report(turn))

    def _work_off(self, happened: Sequence[Happened], turn: Sequence[Happened]) -> Reply | None:
        """The first thing that the prompt, or else what came with it, says to do and that was not done yet."""
        done = [each.given.get("file_path") or each.command for each in turn if each.name]
        prompt = turn[0].said if turn else ""
        typed = _typed(happened)
        added = [each.said for each in happened if each.said and not each.by_person]
        for words in (prompt, *reversed(added)):
            found = orders(_meant(words, typed))
            if not found:
                continue
            for order in found:
                order = order.replace(" DIR", f" {typed[-1]}" if typed else " DIR")
                reply, mark = _spoken(order, f"{prompt}\n{words}", happened)
                if mark not in done:
                    return reply
            return None
        return None

    def _asked(self, answer: Mapping[str, Any], after: Sequence[Happened]) -> Reply | None:
        """A command that the instruction says to run, outside brackets, unless people have answered it; or the end of
        the turn, where it says to stop then."""
        instruction = re.sub(r"\([^()]*\)", "", str(answer.get("instruction") or ""))
        spans = [span for span in _SPAN.findall(instruction) if _is_command(span)]
        if not spans or answer.get("feedback"):
            return None
        for span in spans:
            if not any(each.command == span for each in after):
                return tool("Bash", command=span)
        return text("I asked and stop.") if "and stop" in instruction else None

    def _recover(self, error: Mapping[str, Any], turn: Sequence[Happened]) -> Reply | None:
        """The first command of an error's recovery that was not tried yet; None if all were."""
        spans = [span for span in _SPAN.findall(str(error.get("recovery") or "")) if _is_command(span)]
        filled = [_URL.sub(self.address, _NAME.sub(lambda _: self.branch, span)) for span in spans]
        tried = [each.command for each in turn]
        last = len(filled) - 1
        # What it ends with is to be run again, whenever it was run before.
        return next(
            (
                tool("Bash", command=each)
                for number, each in enumerate(filled)
                if each not in tried or (number == last and last and tried[-1] == filled[last - 1])
            ),
            None,
        )

    def _follow(self, told: str, turn: Sequence[Happened]) -> Reply | None:
        """What the newest JSON answer says to do next."""
        keys = list(dict.fromkeys(_RUN_KEY.findall(told)))
        for at in range(len(turn) - 1, -1, -1):
            answer = turn[at].answer
            if answer is None or turn[at].name != "Bash":
                continue
            after = turn[at + 1 :]
            if isinstance(answer.get("error"), dict):
                return self._recover(answer["error"], turn)
            commands = [(key, answer[key]) for key in keys if isinstance(answer.get(key), str)]
            if not commands:
                continue  # a bare record of what was done: what was handed out before it is still open
            for number, (_, command) in enumerate(commands):
                if any(each.command.startswith(command) for each in after if each.name == "Bash"):
                    continue
                last = number == len(commands) - 1
                if last and (asked := self._asked(answer, after)):
                    return asked
                made = self.hands(str(answer.get("instruction") or ""), answer) if last else Made()
                if made.failure and (given_up := _give_up(told, answer, made.failure)):
                    return given_up if given_up.blocks[0] not in _sent(after) else None
                for work in made.calls:
                    if not any(_same(work, each) for each in after):
                        return work
                return tool("Bash", command=command + (_added(told, answer, made) if last else ""))
            return tool("Bash", command=turn[at].command)  # all of it is done: it is asked again
        return None


def conversation(request: Request) -> list[Happened]:
    """What the request holds, in order: words, and calls with their results."""
    found: list[Happened] = []
    open_calls: dict[str, Happened] = {}
    for message in request.messages:
        content: Any = message.get("content")
        blocks: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        )
        kinds = {block.get("type") for block in blocks}
        for block in blocks:
            if block.get("type") == "text" and message.get("role") != "assistant":
                words = str(block["text"])
                # What the client adds is in tags, in messages of the system, or beside the results of tools.
                added = (
                    words.lstrip().startswith(("<system-reminder>", "Output token limit hit"))
                    or message["role"] != "user"
                    or "tool_result" in kinds
                )
                found.append(Happened(said=words, by_person=not added))
            elif block.get("type") == "tool_use":
                open_calls[block["id"]] = Happened(name=block["name"], given=block["input"])
                found.append(open_calls[block["id"]])
            elif block.get("type") == "tool_result" and block["tool_use_id"] in open_calls:
                made = open_calls[block["tool_use_id"]]
                inner = block.get("content")
                made.result = (
                    inner if isinstance(inner, str) else "\n".join(str(b.get("text", "")) for b in inner or [])
                )
                made.failed = bool(block.get("is_error"))
    return found


def _filled_in(happened: Sequence[Happened]) -> list[Happened]:
    """The same with each skill that was shown as it lies on the disk filled in as it says there; one that the model
    read is words that were said to it."""
    typed = " ".join(_typed(happened))
    found = []
    for each in happened:
        shown = each.said or (each.result or "" if each.name in ("Read", "Skill") else "")
        if rule := _UNFILLED.search(shown):
            named = _FOLDER.search(shown)
            folder = named["folder"] if named else os.path.dirname(str(each.given.get("file_path", "")))
            root = os.path.normpath(os.path.join(folder, rule["path"]))
            shown = re.sub(r"\$\{\w+\}", root.replace("\\", r"\\"), shown)
            each = replace(each, said=shown.replace("$ARGUMENTS", typed), result=None if each.said else "")
        found.append(each)
    return found


def _since_prompt(happened: Sequence[Happened]) -> list[Happened]:
    """The newest words of the person and what was done since."""
    newest = max((at for at, each in enumerate(happened) if each.by_person), default=0)
    return list(happened[newest:])


def _told(happened: Sequence[Happened]) -> list[str]:
    """All that was said to the model; what it read and what programs printed for it to read is said to it, too."""
    words = [each.said for each in happened if each.said]
    read = [str(each.result) for each in happened if each.result and not each.failed and each.answer is None]
    return words + read


def _typed(happened: Sequence[Happened]) -> list[str]:
    """The words after the name of a skill, if the newest prompt calls one."""
    prompts = [each.said for each in happened if each.by_person]
    found = re.search(r"<command-args>(.*?)</command-args>", "\n".join(prompts[-2:]), re.DOTALL)
    found = found or _CALLED.match(prompts[-1] if prompts else "")
    return found[1].split() if found else []


def _meant(prompt: str, typed: Sequence[str]) -> str:
    """The part of a prompt that the typed words ask for, where it says so: a section, or a sentence `Word: …`."""
    if "do only the section of that name" in prompt:
        _, *parts = re.split(r"^## (.+)$", prompt, flags=re.MULTILINE)
        sections = dict(zip(parts[::2], parts[1::2], strict=True))
        prompt = sections.get(typed[0] if typed else "", next(iter(sections.values())))
    if not typed:
        return prompt
    lines = []
    for line in _paragraphs(prompt):
        spoken = re.split(r"(?:(?<=\. )|(?<=^\d\. ))([A-Z][a-z]+): ", line)
        named = dict(zip(spoken[1::2], spoken[2::2], strict=True))
        lines.append(spoken[0] + named[typed[0].title()] if typed[0].title() in named else line)
    return "\n".join(lines)


def orders(words: str) -> list[str]:
    """The commands and files (`read PATH`) that `words` say to run and to read, in order, files first."""
    reads = [f"read {path}" for path in _READ.findall(words)]
    first: list[str] = []
    found: list[str] = []
    lines = _paragraphs(words)
    first += _INLINED.findall(words)
    found += [line.strip() for block in _BLOCK.findall(words) for line in block.splitlines() if line.strip()]
    for line in lines:
        if label := _LABEL.match(line.strip()):
            (first if label["label"].startswith("Before") else found).append(label["command"])
        elif line.startswith("Before you ") or (_STEP.match(line) and not _CONDITION.match(line)):
            found += [span for span in _SPAN.findall(line) if _is_command(span)]
    return [*reads, *first, *found]


def _paragraphs(words: str) -> list[str]:
    """Lines, those joined that belong to one numbered step."""
    lines: list[str] = []
    for line in words.splitlines():
        inside = bool(lines) and _STEP.match(lines[-1]) is not None
        if inside and line.startswith("   ") and not line.lstrip().startswith(("- ", "* ")):
            lines[-1] += " " + line.strip()
        elif not (inside and not line.strip()):
            lines.append(line)
    return lines


def _is_command(span: str) -> bool:
    return " " in span and _COMMAND.match(span) is not None and not re.match(r"/\w+:", span)


def _spoken(order: str, prompt: str, happened: Sequence[Happened]) -> tuple[Reply, str]:
    """The call for an order, and by what it is recognised once it was made; blanks are filled with what was said."""
    if order.startswith("read /"):
        return tool("Read", file_path=order[5:]), order[5:]
    filled = _BLANK.sub(lambda blank: _words_above(prompt), order)
    filled = re.sub(r" --[a-z-]+ [A-Z]+\b", "", filled)  # nothing to say in it
    filled = filled.replace("'…'", "'What happened in this session.'")
    if re.search(r"(?<![\w-])RUN\b", filled):
        left_out = re.search(r"leave (?:RUN|it) out", prompt) is not None
        shown = [prompt, *(each.result or "" for each in happened)]
        ids = [] if left_out else re.findall(r'"run_id":"([^"]+)"', "\n".join(shown))
        filled = re.sub(r" RUN\b", f" {ids[-1]}" if ids else "" if left_out else " RUN", filled)
    return tool("Bash", command=filled), filled


def _words_above(prompt: str) -> str:
    """What the person added to the prompt: the rest of its first line that has a colon."""
    above = prompt[: prompt.find("<the words above>")]
    lines = [line for line in above.splitlines() if re.match(r"[A-Z][^:`]*: ", line) and not line.startswith("Base ")]
    return lines[-1].partition(": ")[2].strip().replace("'", "'\\''")


def _added(told: str, answer: Mapping[str, Any], made: Made) -> str:
    """The options that were spoken of and that there is something to say in."""
    instruction = str(answer.get("instruction"))
    if any(all(word in instruction.lower() for word in what.split()) for what in _AS_IT_IS.findall(told)):
        return ""
    known = set(_OPTION.findall(told)) | set(_OPTION.findall(instruction))
    words: list[str] = []
    if "--message" in known:
        words += ["--message", made.message]
    if "--artifact" in known:
        wanted = re.findall(r"`--artifact (\w+)=", str(answer.get("instruction")))
        words += [part for name in wanted for part in ("--artifact", f"{name}={made.artifacts[name]}")]
    if "--decision" in known:
        words += [part for decision in made.decisions for part in ("--decision", decision)]
    return "".join(" " + shlex.quote(word) for word in words)


def _give_up(told: str, answer: Mapping[str, Any], why: str) -> Reply | None:
    """The command of the line that says what to do if a step cannot be done, its blanks filled."""
    line = next((line for line in told.splitlines() if "If a step cannot be done" in line), "")
    span = next((span for span in _SPAN.findall(line) if _is_command(span)), None)
    if span is None:
        return None
    filled = span.replace("PHASE:STEP", f"{answer.get('phase')}:{answer.get('step')}")
    return tool("Bash", command=re.sub(r"'[^']*'$", shlex.quote(why), filled))


def _sent(happened: Sequence[Happened]) -> list[ToolUse]:
    return [ToolUse(each.name, json.dumps(dict(each.given), ensure_ascii=False)) for each in happened if each.name]


def _same(work: Reply, made: Happened) -> bool:
    [block] = work.blocks
    return isinstance(block, ToolUse) and block.name == made.name and json.loads(block.sent) == dict(made.given)


def _refused_in_a_row(turn: Sequence[Happened]) -> int:
    refused = 0
    for each in reversed(turn):
        if not each.name:
            continue
        if not (each.failed and each.answer is None) or "<tool_use_error>" in (each.result or ""):
            break  # a call that was cut off is made again
        refused += 1
    return refused


def _report(turn: Sequence[Happened]) -> str:
    answers = [each.answer for each in turn if each.answer]
    last = answers[-1] if answers else {}
    return str(last.get("instruction") or last.get("why") or "There is nothing more to do.")


__all__ = ["Hands", "LiteralAgent", "Made", "call", "conversation", "no_work", "orders"]
