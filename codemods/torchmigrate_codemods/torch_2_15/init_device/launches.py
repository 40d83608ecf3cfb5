"""How the processes of a file are started, as far as it decides which GPUs they see."""

from __future__ import annotations

import ast

from torchmigrate.possible import Known
from torchmigrate.reaching import Definition, key_of, settled
from torchmigrate.values import Facts, Values
from torchmigrate_codemods.spellings import c10d

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ACTOR = ("ray.remote", "ray.actor", "monarch.actor")


def obstacle(values: Values, call: ast.Call) -> str | None:
    """Why what the code shows may not be the GPU's index in this process; None when nothing speaks against it."""
    actor = _actor(values, call)
    if actor is not None:
        return f"{actor} is run by a launcher of actors, which decides which GPUs its process sees"
    for name in values.stores.environment():
        if isinstance(name, ast.Constant) and name.value == _VISIBLE:
            line = getattr(name, "lineno", None)
            where = f" on line {line}" if line else ""
            return f"{_VISIBLE} is set{where}, so that indices count only the GPUs that it names"
    return None


def _actor(values: Values, call: ast.Call) -> str | None:
    module = values.module
    for around in module.ancestors(call):
        if not isinstance(around, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for decorator in around.decorator_list:
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            names = module.resolve(function).names
            if any(name.startswith(_ACTOR) for name in names) or (key_of(function) or "").endswith("ray.remote"):
                return around.name
        if isinstance(around, ast.ClassDef):
            bases = [key_of(base) or "" for base in around.bases]
            if any(base.rpartition(".")[2].endswith("Actor") for base in bases):
                return around.name
        if _made_remote(values, around.name):
            return around.name
    return None


def _made_remote(values: Values, name: str) -> bool:
    """`ray.remote(Worker)` somewhere in the file."""
    for call in values.module.names.calls:
        if not any(isinstance(argument, ast.Name) and argument.id == name for argument in call.args):
            continue
        if any(one.startswith("ray.remote") for one in values.module.resolve(call.func).names):
            return True
    return False


def one_process(values: Values, call: ast.Call, facts: Facts) -> bool:
    """Whether the function sets WORLD_SIZE to 1 before the call."""
    flow = values.module.flow(call)
    version = settled(flow.version("os.environ['WORLD_SIZE']", call))
    if isinstance(version, Definition) and version.how == "assign" and version.value is not None:
        return values.of(version.value, facts).options == frozenset({Known("1")})
    owner = values.module.function(call) or values.module.tree
    for other in values.module.names.calls:
        if not isinstance(other.func, ast.Attribute) or other.func.attr != "setdefault" or other.lineno > call.lineno:
            continue
        if not values.module.resolve(other.func.value).names & {"os.environ"} or len(other.args) != 2:
            continue
        given = [values.of(argument, facts).options for argument in other.args]
        if given == [frozenset({Known("WORLD_SIZE")}), frozenset({Known("1")})]:
            return (values.module.function(other) or values.module.tree) is owner
    return False


def cuda_is_certain(values: Values, facts: Facts) -> bool:
    """Whether facts say that the machine has a CUDA device."""
    tested = (condition for condition in facts.conditions if condition.truth)
    return any(_asks_for_cuda(values, condition.test) for condition in tested)


def _asks_for_cuda(values: Values, test: ast.expr) -> bool:
    return isinstance(test, ast.Call) and values.module.resolve(test.func).names == {"torch.cuda.is_available"}


def falls_back(values: Values, call: ast.Call) -> bool:
    """Whether an except clause around a call starts another group instead (as on machines without a GPU)."""
    targets = set(c10d("init_process_group"))
    for around in values.module.ancestors(call):
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        if isinstance(around, ast.Try) and any(call in ast.walk(statement) for statement in around.body):
            for handler in around.handlers:
                for node in ast.walk(handler):
                    if isinstance(node, ast.Call) and values.module.resolve(node.func).names & targets:
                        return True
    return False
