"""Which backend a process group gets: surely NCCL, surely not, or decided at run time and by what."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from torchmigrate.carry import Refused, carry
from torchmigrate.imports import Import
from torchmigrate.module import Module
from torchmigrate.possible import Known, Option, Unknown
from torchmigrate.reaching import Condition, key_of
from torchmigrate.values import Facts, Leaf, Values

_NCCL = frozenset({"nccl", "nccl2", "nccl-lazy"})


def is_nccl(name: str) -> bool:
    """Whether a backend name, plain ("nccl") or by device ("cpu:gloo,cuda:nccl"), uses the new NCCL class."""
    for part in name.lower().split(","):
        device, found, backend = part.strip().rpartition(":")
        if backend in _NCCL and (not found or device == "cuda"):
            return True
    return False


def may_be_nccl(option: Option) -> bool:
    """Whether a possible backend is NCCL or, where it is not known, could be."""
    if isinstance(option, Known):
        return isinstance(option.value, str) and is_nccl(option.value)
    return option.kind in ("", "str") or "nccl" in option.contains


def surely_nccl(option: Option) -> bool:
    """Whether a possible backend is NCCL."""
    if isinstance(option, Known):
        return isinstance(option.value, str) and is_nccl(option.value)
    return "nccl" in option.contains and "legacy" not in option.contains


@dataclass(frozen=True, slots=True)
class Backend:
    """What the backend argument of a call can be.

    `nccl` and `other` are the names in sight; `default` when it may be left to torch (omitted or None); `unknown` what
    else it may be.
    """

    node: ast.expr | None
    nccl: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    default: bool = False
    unknown: tuple[Unknown, ...] = ()

    @property
    def surely(self) -> bool:
        """NCCL whatever happens."""
        return bool(self.nccl) and not (self.other or self.default or self.unknown)

    @property
    def never(self) -> bool:
        """Not NCCL whatever happens."""
        return not (self.nccl or self.default or self.unknown)

    @property
    def origin(self) -> str:
        """Where the unknown part comes from, for people."""
        shown = ast.unparse(self.node) if self.node is not None else "not in sight"
        shown = shown if len(shown) <= 60 else "an expression that this file does not decide"
        return next((u.origin for u in self.unknown if u.origin), shown)


def backend_of(values: Values, node: ast.expr | None, facts: Facts) -> Backend:
    """What a backend argument can be under the facts; None stands for an omitted argument."""
    if node is None:
        return Backend(None, default=True)
    return _classified(node, values.of(node, facts).options)


def backend_from(leaves: list[Leaf]) -> Backend:
    """The backend that a mapping holds."""
    return _classified(None, frozenset(option for leaf in leaves for option in leaf.options))


def _classified(node: ast.expr | None, options: frozenset[Option]) -> Backend:
    nccl: set[str] = set()
    other: set[str] = set()
    unknown: list[Unknown] = []
    default = False
    for option in sorted(options, key=repr):
        if isinstance(option, Known):
            if option.value is None:
                default = True
            elif surely_nccl(option):
                nccl.add(str(option.value))
            else:
                other.add(str(option.value))
        elif surely_nccl(option):
            nccl.add(option.contains)
        elif option.kind in ("", "str"):
            unknown.append(option)
    return Backend(node, tuple(sorted(nccl)), tuple(sorted(other)), default, tuple(unknown))


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition under which a group is an NCCL group, as text for the call.

    `cases` are the facts of each way in which it can come true.
    """

    text: str
    cases: tuple[Facts, ...]
    imports: tuple[Import, ...] = ()


def guard(values: Values, backend: Backend, call: ast.Call, facts: Facts, quote: str) -> Guard | None:
    """The condition that says at the call whether its backend is NCCL; None where no short one can be written."""
    node = backend.node
    if node is None or not (backend.nccl or backend.other or backend.unknown):
        return cuda_guard(values.module, call, facts)
    if isinstance(node, ast.IfExp) and (found := _choice(values, node, call, facts)) is not None:
        return found
    try:
        text = carry(values, node, call, facts).text
    except Refused:
        return None
    subject = text if _is_simple(node) else f"({text})"
    if backend.default:
        return _default_guard(values, backend, call, facts, subject, quote)
    if not backend.nccl:
        test = ast.Compare(node, [ast.Eq()], [ast.Constant("nccl")])
        version = values.module.flow(node).version(key_of(node) or "", node) if key_of(node) else None
        known = Condition(test, True, ((key_of(node) or "", version),)) if version is not None else None
        facts = facts.plus([known] if known is not None else [])
    cases = values.cases(node, surely_nccl if backend.nccl else may_be_nccl, facts)
    return Guard(_comparison(subject, backend, quote), tuple(cases)) if cases else None


def _default_guard(
    values: Values, backend: Backend, call: ast.Call, facts: Facts, subject: str, quote: str
) -> Guard | None:
    """The condition for a backend that may be None, which means NCCL where there is a GPU."""
    cuda = cuda_guard(values.module, call, facts)
    if backend.node is None or backend.unknown or cuda is None:
        return None

    def accept(option: Option) -> bool:
        return surely_nccl(option) or option == Known(None)

    tests = [f"{subject} != {quote}{name}{quote}" for name in backend.other]
    cases = values.cases(backend.node, accept, facts)
    return Guard(all_of([*tests, cuda.text]), tuple(cases), cuda.imports)


def _comparison(subject: str, backend: Backend, quote: str) -> str:
    names = backend.nccl or ("nccl",)
    if len(names) == 1 and backend.unknown and names[0] != names[0].lower():
        return f"{subject}.lower() == {quote}{names[0].lower()}{quote}"
    if len(names) == 1:
        return f"{subject} == {quote}{names[0]}{quote}"
    if not backend.unknown and all("nccl" in n for n in names) and not any("nccl" in n for n in backend.other):
        return f"{quote}nccl{quote} in {subject}"
    return f"{subject} in ({', '.join(f'{quote}{name}{quote}' for name in names)})"


def _choice(values: Values, node: ast.IfExp, call: ast.Call, facts: Facts) -> Guard | None:
    """The test of `"nccl" if test else "gloo"`."""
    then, other = backend_of(values, node.body, facts), backend_of(values, node.orelse, facts)
    if not ((then.surely and other.never) or (then.never and other.surely)):
        return None
    try:
        text = carry(values, node.test, call, facts).text
    except Refused:
        return None
    cases = values.cases(node, surely_nccl, facts)
    return Guard(text if then.surely else negated(text), tuple(cases)) if cases else None


def negated(text: str) -> str:
    """The opposite of a test, in a form that a person would write."""
    opposite = {ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
    parsed = ast.parse(text, mode="eval").body
    if isinstance(parsed, ast.UnaryOp) and isinstance(parsed.op, ast.Not):
        return ast.get_source_segment(text, parsed.operand) or ast.unparse(parsed.operand)
    if isinstance(parsed, ast.Compare) and len(parsed.ops) == 1 and (word := opposite.get(type(parsed.ops[0]))):
        left, right = (ast.get_source_segment(text, part) for part in (parsed.left, parsed.comparators[0]))
        return f"{left} {word} {right}"
    simple = isinstance(parsed, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"not {text}" if simple else f"not ({text})"


def all_of(tests: Sequence[str]) -> str:
    """Tests joined by `and`."""
    tests = list(dict.fromkeys(tests))
    if len(tests) == 1:
        return tests[0]
    loose = (ast.IfExp, ast.NamedExpr, ast.Lambda)
    parts = [(text, ast.parse(text, mode="eval").body) for text in tests]
    return " and ".join(
        f"({text})" if isinstance(one, loose) or (isinstance(one, ast.BoolOp) and isinstance(one.op, ast.Or)) else text
        for text, one in parts
    )


def cuda_guard(module: Module, call: ast.Call, facts: Facts) -> Guard | None:
    """`torch.cuda.is_available()`."""
    spelling = module.spell("torch.cuda.is_available", call)
    if spelling is None:
        return None
    return Guard(f"{spelling.text}()", (facts,), spelling.imports)


def _is_simple(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
