"""Settings of torch's config modules: attributes, `patch(...)`, compile options, and names in `setattr`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass

from torchmigrate.edits import Edit, Replace, ReplaceText
from torchmigrate.module import Module

_BY_NAME = frozenset({"getattr", "setattr", "delattr"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A place that names a setting: an attribute, a keyword of `patch`, or a string."""

    node: ast.expr | ast.keyword
    name: str


def settings(module: Module, home: str, names: Set[str], options: bool = False) -> Iterator[Setting]:
    """The places that name one of the settings of a config module, in source order.

    `options` also looks into `torch.compile(options={...})`.
    """
    found = [*_attributes(module, home, names), *_calls(module, home, names, options)]
    found.sort(key=lambda one: (one.node.lineno, one.node.col_offset))
    yield from found


def renamed(module: Module, setting: Setting, new: str) -> Edit | None:
    """The edit that writes another name at a place."""
    node = setting.node
    if isinstance(node, ast.keyword):
        start, _ = module.extent(node)
        return ReplaceText(start, start + len(setting.name), new)
    if isinstance(node, ast.Attribute):
        _, end = module.extent(node)
        return ReplaceText(end - len(setting.name), end, new)
    source = module.source(node)
    if source.count(setting.name) == 1 and source[1:-1] == setting.name:
        return Replace(node, source.replace(setting.name, new))
    return None


def _attributes(module: Module, home: str, names: Set[str]) -> Iterator[Setting]:
    for node in module.names.attributes:
        if node.attr in names and f"{home}.{node.attr}" in module.resolve(node).names:
            yield Setting(node, node.attr)


def _calls(module: Module, home: str, names: Set[str], options: bool) -> Iterator[Setting]:
    for call in module.names.calls:
        called = module.resolve(call.func).names
        if f"{home}.patch" in called:
            for keyword in call.keywords:
                if keyword.arg in names:
                    yield Setting(keyword, keyword.arg or "")
            for argument in call.args[:1]:
                yield from _texts(argument, names)
        elif options and "torch.compile" in called:
            for keyword in call.keywords:
                if keyword.arg == "options":
                    yield from _texts(keyword.value, names)
        elif isinstance(call.func, ast.Name) and call.func.id in _BY_NAME and len(call.args) > 1:
            yield from _texts(call.args[1], names if home in module.resolve(call.args[0]).names else frozenset())


def _texts(node: ast.expr, names: Set[str]) -> Iterator[Setting]:
    texts = node.keys if isinstance(node, ast.Dict) else [node]
    for text in texts:
        if isinstance(text, ast.Constant) and text.value in names:
            yield Setting(text, str(text.value))
