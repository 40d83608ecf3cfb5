"""Requirements on packages, in every file that can state one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchmigrate.texts.tokens import Command, Entry, Requirement

_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n]*")
_LINE = re.compile(r"[^\r\n]+")
_REQUIREMENT = re.compile(
    r"(?:[\w.-]+::)?(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?P<rest>(?:[(<>=!~@^ ].*)?)$",
    re.DOTALL,
)
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "micromamba", "poetry", "pixi", "pdm"})
INSTALLS = re.compile(rf"(?:\b|(?<=\\[nrt]))(?:{'|'.join(sorted(_INSTALLERS))})3?\b")
"""What a text with an install command holds."""
_VERBS = frozenset({"install", "add", "create", "download", "wheel"})
_SENTENCE = re.compile(r"[A-Z][a-z]*[,:]?")
"""The first word of prose that tells about a command."""
_VALUED = frozenset(
    {
        "-r",
        "-c",
        "-i",
        "-f",
        "-t",
        "-e",
        "-n",
        "-p",
        "--requirement",
        "--constraint",
        "--index-url",
        "--extra-index-url",
    }
    | {"--find-links", "--target", "--name", "--prefix", "--channel", "--python", "--group", "--editable", "--index"}
)
_TABLES = re.compile(
    r"project/dependencies|project/optional-dependencies/[^/]+|dependency-groups/[^/]+|build-system/requires"
    r"|tool/(?:hatch|uv|pdm|pixi)/.*(?:dependencies|dependency-groups|dev-dependencies)(?:/[^/]+)?"
    r"|options/(?:install_requires|tests_require|setup_requires)|options\.extras_require/[^/]+"
    r"|testenv[^/]*/deps"
)
_CONDA = re.compile(r"dependencies(?:/pip)?|channels")
_MAPPINGS = re.compile(
    r"tool/poetry/(?:(?:dev-)?dependencies|group/[^/]+/dependencies)/(?P<name>[^/]+)(?:/version)?"
    r"|(?:dev-)?packages/(?P<pip>[^/]+)(?:/version)?"
    r"|(?:tool/pixi/)?(?:feature/[^/]+/)?(?:pypi-)?dependencies/(?P<pixi>[^/]+)(?:/version)?"
)


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str, start: int, end: int) -> Requirement | None:
    """One requirement as pip or conda spell it; `start` and `end` say where it stands."""
    match = _REQUIREMENT.match(text.strip())
    if match is None:
        return None
    specifier = match["rest"].partition(";")[0].strip()
    if specifier.startswith("("):
        specifier = specifier.strip("()")
    return Requirement(normal(match["name"]), specifier.strip(), start, end)


def of_file(text: str) -> Iterator[Requirement]:
    """The requirements of a requirements file, one a line."""
    for match in _LINE.finditer(text):
        line = _COMMENT.sub("", match[0]).rstrip().removesuffix("\\").rstrip()
        body = re.sub(r"\s+--hash=\S+", "", line.strip())
        if body and not body.startswith("-"):
            start = match.start() + line.index(body[0])
            found = parse(body, start, start + len(body))
            if found is not None:
                yield found


def of_entries(entries: Iterable[Entry]) -> Iterator[Requirement]:
    """The requirements of pyproject.toml, setup.cfg, tox.ini, Pipfile and conda environments."""
    for entry in entries:
        path = "/".join(entry.path)
        if _TABLES.fullmatch(path) or (_CONDA.fullmatch(path) and entry.item is not None):
            found = parse(re.sub(r"\s+#.*", "", entry.value), entry.start, entry.end)
        elif match := _MAPPINGS.fullmatch(path):
            name = match["name"] or match["pip"] or match["pixi"]
            found = Requirement(normal(name), "" if entry.value == "*" else entry.value, entry.start, entry.end)
        else:
            continue
        if found is not None:
            yield found


def of_commands(commands: Iterable[Command]) -> Iterator[Requirement]:
    """The requirements that `pip install` and its kin are given."""
    for command in commands:
        words = list(command.words)
        names = [word.text.rpartition("/")[2] for word in words]
        installer = next((i for i, name in enumerate(names) if name in _INSTALLERS), None)
        verb = next(
            (i for i, name in enumerate(names) if name in _VERBS and installer is not None and i > installer), None
        )
        if verb is None or _SENTENCE.fullmatch(names[0]):
            continue
        skip = False
        for word in words[verb + 1 :]:
            if skip or word.text.startswith("-"):
                skip = not skip and word.text in _VALUED
                continue
            found = parse(word.text, word.start, word.end) if "/" not in word.text.partition("@")[0] else None
            if found is not None:
                yield found
