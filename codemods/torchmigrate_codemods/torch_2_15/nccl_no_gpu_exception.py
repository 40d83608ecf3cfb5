"""TM107: without a GPU, an NCCL group now fails with RuntimeError instead of ValueError."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.calls import bind
from torchmigrate.codemod import Codemod, Plan
from torchmigrate.edits import SetArgument
from torchmigrate.model import Safety
from torchmigrate.module import Module
from torchmigrate.possible import Known
from torchmigrate.reaching import key_of
from torchmigrate.values import Facts, Values
from torchmigrate_codemods.spellings import RELEASE_NOTES, c10d
from torchmigrate_codemods.torch_2_15.init_device.backends import backend_of, is_nccl, surely_nccl
from torchmigrate_codemods.torch_2_15.init_device.launches import cuda_is_certain
from torchmigrate_codemods.torch_2_15.init_device.site import INIT

_RULE = "without a GPU, NCCL now raises RuntimeError, not ValueError"
_TEXTS = ("ProcessGroupNCCL is only supported with GPUs", "no GPUs found")
_WIDE = frozenset({"RuntimeError", "Exception", "BaseException"})
_SAYS = frozenset("print info warning warn debug error exception log".split())  # noqa: SIM905
_EXPECTS = frozenset({"raises", "assertRaises", "assertRaisesRegex", "suppress"})


class NcclNoGpuException(Codemod):
    """Choose the backend by torch.cuda.is_available(), not by catching ValueError.

    On a machine without a GPU, `init_process_group("nccl")` raised `ValueError: ProcessGroupNCCL is only supported
    with GPUs, no GPUs found!` up to torch 2.14. From 2.15 on it raises `RuntimeError: nccl2 requires at least one CUDA
    device`. `try: ... except ValueError:` around it no longer falls back to gloo.

    Where the handler does nothing but start the group again with another backend (and say so), the call itself
    chooses: `"nccl" if torch.cuda.is_available() else "gloo"`, on every torch. Other handlers of ValueError, tests that
    expect it, and code that looks for the old message are reported: catching RuntimeError as well would also catch
    failures of NCCL on machines that have GPUs.
    """

    code, name, area = "TM107", "nccl-no-gpu-exception", "distributed"
    reference = RELEASE_NOTES
    example = """
    import torch.distributed as dist

    try:
        dist.init_process_group("nccl")
    except ValueError:
        dist.init_process_group("gloo")
    """
    triggers = (b"init_process_group", *(text.encode() for text in _TEXTS))

    def check(self, module: Module) -> Iterator[Plan]:
        """One plan for each call whose ValueError is caught, and one for each use of the old message."""
        values = module.values
        for site in module.calls(*c10d("init_process_group")):
            if site.certain:
                yield from self._call(values, site.node)
        for node in module.parents:
            if isinstance(node, ast.Constant) and self._looks_for(module, node):
                yield self.report(
                    node, f"{_RULE}: `nccl2 requires at least one CUDA device`; this text no longer comes"
                )

    def _call(self, values: Values, call: ast.Call) -> Iterator[Plan]:
        module = values.module
        facts = values.facts(call)
        node = bind(call, INIT).get("backend")
        if node is None or not backend_of(values, node, facts).nccl:
            return
        if all(cuda_is_certain(values, case) for case in values.cases(node, surely_nccl, facts)):
            return
        for around in module.ancestors(call):
            if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return
            if isinstance(around, ast.Try) and any(call in ast.walk(statement) for statement in around.body):
                handler = _value_error(around)
                if handler is not None:
                    yield self._handled(values, call, node, around, handler, facts)
                    return
                if any(_catches(one) & _WIDE or one.type is None for one in around.handlers):
                    return
            if isinstance(around, (ast.With, ast.AsyncWith)) and _expects_value_error(around):
                yield self.report(call, f"{_RULE}: expect both here")
                return

    def _handled(
        self, values: Values, call: ast.Call, node: ast.expr, around: ast.Try, handler: ast.ExceptHandler, facts: Facts
    ) -> Plan:
        module = values.module
        again = self._restart(values, call, around, handler)
        available = module.spell("torch.cuda.is_available", call)
        line = module.line(handler)
        if again is None or available is None or values.of(node, facts).options != frozenset({Known("nccl")}):
            message = (
                f"{_RULE}, so that the handler on line {line} is not reached: choose by torch.cuda.is_available()"
                " before the call"
            )
            return self.report(call, message)
        value = f"{module.source(node)} if {available.text}() else {module.source(again)}"
        return self.change(
            call,
            SetArgument(call, "backend", value, position=0),
            message=f"{_RULE}, so that the handler on line {line} would not be reached",
            safety=Safety.SAFE,
            imports=available.imports,
        )

    def _restart(self, values: Values, call: ast.Call, around: ast.Try, handler: ast.ExceptHandler) -> ast.expr | None:
        """The backend with which a handler makes the same call again, if that (and messages) is all that it does."""
        module = values.module
        if len(around.body) != 1 or around.orelse or around.finalbody:
            return None
        if not isinstance(around.body[0], ast.Expr) or around.body[0].value is not call:
            return None
        targets = set(c10d("init_process_group"))
        again: list[ast.Call] = []
        for statement in handler.body:
            inner = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(inner, ast.Call):
                return None
            if module.resolve(inner.func).names & targets:
                again.append(inner)
            elif (key_of(inner.func) or "").rpartition(".")[2] not in _SAYS:
                return None
        if len(again) != 1 or again[0].func is None:
            return None
        backend = bind(again[0], INIT).get("backend")
        if not isinstance(backend, ast.Constant) or not isinstance(backend.value, str) or is_nccl(backend.value):
            return None
        mine, other = _without_backend(call), _without_backend(again[0])
        return backend if mine == other else None

    def _looks_for(self, module: Module, node: ast.Constant) -> bool:
        """Whether a text is the old message, or a part of it, in a test or a comparison."""
        if not isinstance(node.value, str):
            return False
        if not any(text in node.value or node.value in _TEXTS for text in _TEXTS):
            return False
        parent = module.parents.get(node)
        compared = isinstance(parent, ast.Compare)
        matched = isinstance(parent, ast.keyword) and parent.arg in ("match", "expected_regex")
        given = isinstance(parent, ast.Call) and (key_of(parent.func) or "").rpartition(".")[2] in (
            *_EXPECTS,
            "assertIn",
            "search",
            "match",
            "startswith",
        )
        return compared or matched or given


def _catches(handler: ast.ExceptHandler) -> set[str]:
    """The last names of the classes that a handler catches."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    return {(key_of(kind) or "").rpartition(".")[2] for kind in kinds}


def _value_error(node: ast.Try) -> ast.ExceptHandler | None:
    """The handler that gets a ValueError, where a RuntimeError goes elsewhere."""
    caught = [(handler, _catches(handler)) for handler in node.handlers]
    old = next((h for h, one in caught if not one or one & {"ValueError", "Exception", "BaseException"}), None)
    new = next((h for h, one in caught if not one or one & _WIDE), None)
    if old is None or new is None:
        return old
    return None if ast.dump(ast.Module(old.body, [])) == ast.dump(ast.Module(new.body, [])) else old


def _expects_value_error(node: ast.With | ast.AsyncWith) -> bool:
    for item in node.items:
        call = item.context_expr
        if not isinstance(call, ast.Call) or (key_of(call.func) or "").rpartition(".")[2] not in _EXPECTS:
            continue
        names = {key_of(inner) for argument in call.args for inner in ast.walk(argument)}
        if "ValueError" in names and not names & _WIDE:
            return True
    return False


def _without_backend(call: ast.Call) -> tuple[str, ...]:
    """A call's arguments but the backend, as text."""
    positional = [ast.unparse(one) for one in call.args[1:]]
    keywords = sorted(f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords if k.arg != "backend")
    return (ast.unparse(call.func), *positional, *keywords)
