"""TM109: the new NCCL backend raises other exceptions, and says it in other words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from torchmigrate.codemod import Codemod, Plan
from torchmigrate.module import Module
from torchmigrate_codemods.nccl_inits import backend, inits
from torchmigrate_codemods.point_to_point import COLLECTIVES
from torchmigrate_codemods.spellings import NOT_BATCHED, OTHER_ALIAS, c10d, imports_from_distributed, pull

_DIST_ERROR = ("torch.distributed.DistBackendError", "torch._C._DistBackendError")
_BLOCKS = frozenset({ast.Try, ast.With, ast.AsyncWith})
_CLASSES = frozenset({"RuntimeError", "TypeError", "ValueError", "NotImplementedError"})
_WIDE = frozenset({"RuntimeError", "Exception", "BaseException"})
_CALLS = COLLECTIVES | frozenset(c10d("send", "recv", "isend", "irecv", "barrier", "batch_isend_irecv"))
_INITS = frozenset(c10d("init_process_group"))
_RECEIVES = frozenset(c10d("recv", "irecv"))
_SCALED_MM = frozenset({"torch._scaled_mm"})
_TESTS = frozenset(
    {
        "pytest.raises",
        "contextlib.suppress",
        "self.assertRaises",
        "self.assertRaisesRegex",
        "unittest.TestCase.assertRaises",
    }
)
_OTHERWISE = 'torch 2.15 words this otherwise ("{}"), so the text no longer matches'
_TEXTS = (
    (r"nccl error(?!:)", _OTHERWISE.format("Failed to initialize NCCL communicator: invalid usage")),
    ("attempt to perform collective", _OTHERWISE.format("Expected tensor on cuda:0 but found tensor on cuda:1")),
    ("communicator was aborted on rank", _OTHERWISE.format("NCCL communicator was aborted after a previous error")),
    ("processgroupnccl does not support", _OTHERWISE.format("Backend nccl2 does not support recvAnysource")),
    ("data type is not supported for nccl", _OTHERWISE.format("Unsupported tensor data type for NCCL")),
    ("timeout: worknccl", _OTHERWISE.format("caught collective operation timeout: NCCL operation timed out")),
    ("not safe to split any process groups", "torch 2.15 never says this: NCCL groups are always bound to a device"),
)
_WORDS = ("nccl", "collective", "communicator", "process groups")
"""Of which each of the texts has one."""
_PLAIN_ERROR = (
    "the nccl of torch 2.15 raises a plain RuntimeError where 2.14 raised DistBackendError (tensor on another GPU, "
    "failed start, aborted communicator); catch RuntimeError, its base class"
)
_DTYPE = (
    "a data type that NCCL does not take is a RuntimeError with the nccl of torch 2.15 (TypeError before), and other "
    "checks of arguments changed their class too; catch RuntimeError as well"
)
_ANY_SOURCE = "recv without a source is a RuntimeError with the nccl of torch 2.15 (NotImplementedError before)"
_SCALED = (
    "torch.nn.functional.scaled_mm, which takes the place of torch._scaled_mm, raises ValueError where the old call "
    "raised RuntimeError (alignment, bias, recipe); catch both"
)
_CALLED = (
    *(b"dist.all_reduce(", b"distributed.all_reduce(", b"dist.all_gather(", b"dist.broadcast(", b"dist.recv("),
    *(b"distributed.recv(", b"irecv"),
)
_ALIASED = (b".all_reduce(", b".all_gather(", b".broadcast(", b".recv(")
_HANDLED = (
    rb"TypeError|ValueError|NotImplementedError",
    rb"(?:except|aises|suppress)[\s\S]{0,300}?(?:Type|Value|NotImplemented)Error",
)


class DistErrorClass(Codemod):
    """Find handlers and texts that miss the exceptions of the new NCCL backend.

    The NCCL backend of torch 2.15 raises other classes, in other words. A tensor on another GPU, a failed start and an
    aborted communicator are a plain RuntimeError, where 2.14 raised `DistBackendError` (a subclass, still raised for
    some time-outs): `except DistBackendError` lets them pass. A data type that NCCL does not take is a RuntimeError
    (was TypeError), `recv` without a source too (was NotImplementedError). `torch.nn.functional.scaled_mm`, which TM301
    writes for `torch._scaled_mm`, raises ValueError where the old call raised RuntimeError.

    A report for `except`, `pytest.raises`, `assertRaises` and `isinstance` with such a class around such a call, when
    nothing wider is caught with it, and for comparisons and patterns with the old texts. `except ValueError` around
    `init_process_group("nccl")` is TM107's. Files whose groups are surely not NCCL are left alone.
    """

    code, name, area = "TM109", "dist-error-class", "distributed"
    triggers = (
        *(
            b"DistBackendError",
            b"_scaled_mm",
            b"NCCL error",
            b"WorkNCCL",
            b"communicator was aborted",
            b"recvAnysource",
        ),
        *(b"not supported for NCCL", b"Attempt to perform collective", b"not safe to split"),
        *_CALLED,
        *_ALIASED,
        b"torch.distributed import",
    )
    requires: ClassVar = {
        b"_scaled_mm": (b"RuntimeError",),
        **dict.fromkeys(_CALLED, _HANDLED),
        b"irecv": (NOT_BATCHED[b"irecv"], *_HANDLED),
        **dict.fromkeys(_ALIASED, (OTHER_ALIAS, *_HANDLED)),
        b"torch.distributed import": (imports_from_distributed("all_reduce|all_gather|broadcast|i?recv"), *_HANDLED),
    }
    reference = pull(192281)
    example = """
    import torch.distributed as dist

    dist.init_process_group("nccl")
    try:
        dist.all_reduce(x)
    except dist.DistBackendError:
        recover()
    """

    def check(self, module: Module) -> Iterator[Plan]:
        """Report handlers, expectations of tests and texts."""
        nccl = {backend(module, call, binding.get("backend"))[0] for call, binding in inits(module)} != {"other"}
        for node in [one for one in module.parents if one.__class__ in _BLOCKS]:
            if isinstance(node, ast.Try):
                for handler in node.handlers:
                    if handler.type is not None:
                        yield from self._caught(module, handler.type, node.body, nccl)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if (expected := _expected(module, item.context_expr)) is not None:
                        worded = _is_worded(item.context_expr)
                        yield from self._caught(module, expected, node.body, nccl and not worded)
        for call in module.names.calls:
            yield from self._asked(module, call)
        for text in module.names.texts if nccl else ():
            yield from self._text(module, text)

    def _caught(self, module: Module, kinds: ast.expr, body: list[ast.stmt], nccl: bool) -> Iterator[Plan]:
        listed = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        names = {one.id for one in listed if isinstance(one, ast.Name)}
        own = [one for one in listed if module.resolve(one).perhaps(frozenset(_DIST_ERROR))]
        if own and not names & _WIDE:
            yield self.report(kinds, _PLAIN_ERROR)
            return
        if not names & _CLASSES:
            return
        called = _called(module, body)
        if "RuntimeError" in names and not names & {"ValueError", "Exception", "BaseException"}:
            if any(one & _SCALED_MM for one in called):
                yield self.report(kinds, _SCALED)
            return
        if names & _WIDE or not nccl:
            return
        starts = any(one & _INITS for one in called)
        checked = _CALLS if "TypeError" in names else COLLECTIVES
        if names & {"TypeError", "ValueError"} and not starts and any(one & checked for one in called):
            yield self.report(kinds, _DTYPE)
        elif "NotImplementedError" in names and any(one & _RECEIVES for one in called):
            yield self.report(kinds, _ANY_SOURCE)

    def _asked(self, module: Module, call: ast.Call) -> Iterator[Plan]:
        match call:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                listed = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
                names = {one.id for one in listed if isinstance(one, ast.Name)}
                if any(module.resolve(o).perhaps(frozenset(_DIST_ERROR)) for o in listed) and not names & _WIDE:
                    yield self.report(call, _PLAIN_ERROR)

    def _text(self, module: Module, node: ast.Constant) -> Iterator[Plan]:
        text = str(node.value).lower()
        if not any(word in text for word in _WORDS):
            return
        text = re.sub(r"\\(\W)", r"\1", text)
        found = next((message for pattern, message in _TEXTS if re.search(pattern, text)), None)
        if found is not None and _is_pattern(module, node):
            yield self.report(node, found)


def _called(module: Module, body: list[ast.stmt]) -> list[frozenset[str]]:
    """The qualified names of the calls that a block makes itself."""
    found: list[frozenset[str]] = []
    stack: list[ast.AST] = list(body)
    while stack:
        at = stack.pop()
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(at, ast.Call):
            found.append(module.resolve(at.func).names)
        stack.extend(ast.iter_child_nodes(at))
    return found


def _expected(module: Module, context: ast.expr) -> ast.expr | None:
    """The exception classes that a context manager of tests, or suppress, waits for."""
    if not isinstance(context, ast.Call) or not context.args:
        return None
    own = isinstance(context.func, ast.Attribute) and context.func.attr in ("assertRaises", "assertRaisesRegex")
    if not own and not module.resolve(context.func).names & _TESTS:
        return None
    if len(context.args) > 1 and not own:
        return ast.copy_location(ast.Tuple(list(context.args), ast.Load()), context)
    return context.args[0]


def _is_worded(context: ast.expr) -> bool:
    """Whether a test expects a text as well, which says more than the class."""
    if not isinstance(context, ast.Call):
        return False
    by_name = isinstance(context.func, ast.Attribute) and context.func.attr == "assertRaisesRegex"
    return by_name or any(keyword.arg == "match" for keyword in context.keywords)


def _is_pattern(module: Module, node: ast.Constant) -> bool:
    """Whether a text is compared with, searched, or expected."""
    parent = module.parents.get(node)
    match parent:
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]) if left is node:
            return True
        case ast.keyword(arg="match"):
            return True
        case ast.Call(func=function, args=[*_, last]) if last is node or parent.args[0] is node:
            name = function.attr if isinstance(function, ast.Attribute) else ""
            searches = any(one.startswith("re.") for one in module.resolve(function).names)
            return searches or name in ("assertRaisesRegex", "startswith", "find", "assertIn")
    return False
