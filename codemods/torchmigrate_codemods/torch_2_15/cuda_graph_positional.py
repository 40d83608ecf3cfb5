"""TM812: a new parameter of torch.cuda.graph moves check_input_liveness."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import Keep, RewriteCall
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate_codemods.spellings import RELEASE_NOTES

_GRAPH = ("torch.cuda.graph", "torch.cuda.graphs.graph")
_MOVED, _KEYWORD = 5, "check_input_liveness"
_MOVES = (
    "torch 2.15 puts annotation_config before check_input_liveness in torch.cuda.graph, so the sixth argument by "
    "position would be taken for it"
)
_PART = rb"(?:(?!:[ \t]*(?:#|\r?\n))[^,*])*"
_USED = (
    rb"(?:\s*\((?:(?:%b,){5}|(?:%b,){0,4}%b\*)|\s*[,)\]};]|\s+(?:as|if|else|or|and|for|in|is|not)\b"
    rb"|[ \t]*(?:\r?\n|#|\\|\Z))"
) % (_PART, _PART, _PART)
"""What follows torch.cuda.graph where it may be given a sixth argument: five commas or a star before a block begins, or
anything that is no call."""
_GRAPH_USED = rb"graph(?:s\b|%b)" % _USED


class CudaGraphPositional(Codemod):
    """Pass check_input_liveness of torch.cuda.graph by keyword.

    torch 2.15 added the parameter `annotation_config` to `torch.cuda.graph`, between `enable_annotations` and
    `check_input_liveness`. A call with six arguments by position hands the last one to the new parameter, and a bool
    is refused there (`TypeError: 'bool' object is not iterable`).

    The sixth argument of such a call gets its keyword, which means the same on both releases. So do calls of
    `functools.partial` and of `super().__init__` in a subclass. Calls with `*args` that may reach the sixth are
    reported; those that only hand on all of `*args` and `**kwargs` are not.
    """

    code, name, area = "TM812", "cuda-graph-positional", "cuda"
    triggers = (b"cuda.graph", b"torch.cuda as", b"torch.cuda import", b"cuda as")
    requires: ClassVar = {
        b"cuda.graph": (rb"cuda\.graph(?:s\s+(?:as|import)\b|(?:s\.graph)?%b)" % _USED,),
        **dict.fromkeys((b"torch.cuda as", b"torch.cuda import"), (_GRAPH_USED,)),
        b"cuda as": (rb"torch\s+import\s*(?:\([^)]*|[^\n]*)\bcuda\s+as\b", _GRAPH_USED),
    }
    reference = RELEASE_NOTES
    example = """
    import torch

    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, None, None, "global", False, True):
        y = f(x)
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Plan for calls, partials and base class calls with six arguments by position."""
        for node, certain in module.references(*_GRAPH):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                yield from self._call(parent, 0, certain)
            elif isinstance(parent, ast.Call) and parent.args[:1] == [node]:
                if module.refers_to(parent.func, "functools.partial"):
                    yield from self._call(parent, 1, certain)
            elif isinstance(parent, ast.ClassDef) and node in parent.bases:
                for call in _super_calls(module, parent):
                    yield from self._call(call, 0, certain)

    def _call(self, call: ast.Call, skip: int, certain: bool) -> Iterator[Plan]:
        given = call.args[skip:]
        starred = next((i for i, one in enumerate(given) if isinstance(one, ast.Starred)), None)
        if starred is not None:
            handed_on = starred == 0 and any(keyword.arg is None for keyword in call.keywords)
            if not handed_on and not any(keyword.arg == _KEYWORD for keyword in call.keywords):
                yield self.report(call, f"{_MOVES}; pass it by keyword where *args can reach it")
            return
        if len(given) != _MOVED + 1 or isinstance(given[_MOVED], (ast.Dict, ast.DictComp)):
            return
        if any(keyword.arg is None for keyword in call.keywords):
            yield self.report(call, f"{_MOVES}; pass it by keyword")
            return
        literal = _is_bool(given[_MOVED])
        total = len(call.args) + len(call.keywords)
        last = skip + _MOVED
        kept = [Keep(i, _KEYWORD if i == last else None) for i in range(len(call.args))]
        named = [Keep(i, call.keywords[i - len(call.args)].arg) for i in range(len(call.args), total)]
        yield self.change(
            call,
            RewriteCall(call, None, (*kept, *named)),
            message=_MOVES if literal else f"{_MOVES} (unless the argument is an annotation_config already)",
            safety=Safety.SAFE if literal and certain else Safety.UNSAFE,
            needs_torch="2.14",
        )


def _is_bool(node: ast.expr) -> bool:
    """Whether an expression is true or false and nothing else, so no configuration."""
    match node:
        case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Call(func=ast.Name(id="bool")):
            return True
    return False


def _super_calls(module: Module, owner: ast.ClassDef) -> Iterator[ast.Call]:
    for call in module.names.calls:
        match call.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                if module.enclosing_class(call) is owner:
                    yield call
