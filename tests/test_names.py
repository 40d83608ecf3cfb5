"""What a name refers to, and how a name is written at a place."""

from __future__ import annotations

import ast
import textwrap
from difflib import ndiff

import pytest

from torchmigrate.imports import Import, insertions
from torchmigrate.module import Module
from torchmigrate.parse import compiles, parse_python

TARGETS = frozenset({"torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group"})


def module_of(source: str) -> Module:
    text = textwrap.dedent(source).lstrip("\n")
    return Module("a.py", text, parse_python(text))


def asked(source: str) -> str:
    """Whether the call with the argument HERE is of init_process_group: surely, perhaps or no."""
    module = module_of(source)
    (call,) = (
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Name) and a.id == "HERE" for a in node.args)
    )
    reference = module.resolve(call.func)
    answer = "surely" if reference.surely(TARGETS) else "perhaps" if reference.perhaps(TARGETS) else "no"
    listed = {site.node: site.certain for site in module.calls(*TARGETS)}
    assert (call in listed) == (answer != "no")
    assert listed.get(call, False) == (answer == "surely")
    return answer


SURELY = {
    "plain import": "import torch\ntorch.distributed.init_process_group(HERE)",
    "rebound by its own value": "import torch\ntorch = reload(torch.distributed.init_process_group(HERE))",
    "dotted import": "import torch.distributed\ntorch.distributed.init_process_group(HERE)",
    "deeper import binds the top": "import torch.distributed.fsdp\ntorch.distributed.init_process_group(HERE)",
    "module alias": "import torch.distributed as dist\ndist.init_process_group(HERE)",
    "from torch": "from torch import distributed\ndistributed.init_process_group(HERE)",
    "from torch as": "from torch import distributed as td\ntd.init_process_group(HERE)",
    "function": "from torch.distributed import init_process_group\ninit_process_group(HERE)",
    "function alias": "from torch.distributed import init_process_group as ipg\nipg(HERE)",
    "c10d dotted": "import torch\ntorch.distributed.distributed_c10d.init_process_group(HERE)",
    "c10d alias": "import torch.distributed.distributed_c10d as c10d\nc10d.init_process_group(HERE)",
    "c10d from": "from torch.distributed import distributed_c10d as c10d\nc10d.init_process_group(HERE)",
    "c10d function": "from torch.distributed.distributed_c10d import init_process_group\ninit_process_group(HERE)",
    "parenthesised list": "from torch.distributed import (\n    barrier,\n    init_process_group,\n)\n"
    "init_process_group(HERE)",
    "several in one": "import os, torch.distributed as dist, sys\ndist.init_process_group(HERE)",
    "semicolons": "import torch; import torch.distributed as dist; dist.init_process_group(HERE)",
    "by text": 'import torch.distributed as dist\ngetattr(dist, "init_process_group")(HERE)',
    "by text, kept": 'import torch\ninit = getattr(torch.distributed, "init_process_group")\ninit(HERE)',
    "module by text": 'import torch\ngetattr(torch, "distributed").init_process_group(HERE)',
    "module by text, kept": 'import torch\ndist = getattr(torch, "distributed")\ndist.init_process_group(HERE)',
    "by text twice": 'import torch\ngetattr(getattr(torch, "distributed"), "init_process_group")(HERE)',
    "in a function": """
        def f():
            import torch.distributed as dist
            dist.init_process_group(HERE)
        """,
    "imported below its use in a function": """
        def f():
            dist.init_process_group(HERE)
        import torch.distributed as dist
        """,
    "imported around a closure": """
        def f():
            from torch import distributed as dist
            def g():
                return lambda: dist.init_process_group(HERE)
            return g
        """,
    "in a method": """
        import torch.distributed as dist
        class Trainer:
            def dist(self):
                dist.init_process_group(HERE)
        """,
    "in a class body": """
        class Trainer:
            import torch.distributed as dist
            dist.init_process_group(HERE)
        """,
    "under try": """
        try:
            import torch.distributed as dist
        except ImportError:
            dist = None
        dist.init_process_group(HERE)
        """,
    "under try, chained fallback": """
        try:
            import torch.distributed as dist
        except ImportError:
            dist = DDP = None
        dist.init_process_group(HERE)
        """,
    "under try, fallback pair": """
        try:
            import torch.distributed as dist
        except ImportError:
            dist, available = None, False
        dist.init_process_group(HERE)
        """,
    "either of two modules": """
        try:
            from torch.distributed import init_process_group
        except ImportError:
            from torch.distributed.distributed_c10d import init_process_group
        init_process_group(HERE)
        """,
    "under if": """
        import torch
        if torch.distributed.is_available():
            import torch.distributed as dist
        dist.init_process_group(HERE)
        """,
    "assigned alias": "import torch\ndist = torch.distributed\ndist.init_process_group(HERE)",
    "alias of an alias": "import torch\nd = torch.distributed\ne = d\ninit = e.init_process_group\ninit(HERE)",
    "pair of aliases": "import torch\ncuda, dist = torch.cuda, torch.distributed\ndist.init_process_group(HERE)",
    "imported again": "import torch\nimport torch\ntorch.distributed.init_process_group(HERE)",
    "star of torch.distributed": "from torch.distributed import *\ninit_process_group(HERE)",
    "comprehension": "import torch.distributed as dist\n[dist.init_process_group(HERE) for dist_ in range(2)]",
    "rebound later": "import torch.distributed as dist\ndist.init_process_group(HERE)\ndist = None",
    "rebound in another function": """
        import torch.distributed as dist
        def g():
            dist = None
        def f():
            dist.init_process_group(HERE)
        """,
    "bound by a class nearby": """
        import torch.distributed as dist
        class A:
            dist = None
            def f(self):
                dist.init_process_group(HERE)
        """,
    "deleted elsewhere": """
        import torch.distributed as dist
        def f():
            dist.init_process_group(HERE)
        """,
    "global": """
        dist = None
        def load():
            global dist
            import torch.distributed as dist
        def f():
            load()
            dist.init_process_group(HERE)
        """,
    "decorator": """
        import torch.distributed as dist
        @dist.init_process_group(HERE)
        def dist_main(dist): pass
        """,
    "default of a parameter of that name": """
        import torch.distributed as dist
        def f(dist=dist.init_process_group(HERE)): pass
        """,
}

PERHAPS = {
    "by text under if": """
        import torch.distributed as dist
        start = print
        if ready:
            start = getattr(dist, "init_process_group")
        start(HERE)
        """,
    "two libraries under if": """
        if ascend:
            import torch_npu.distributed as dist
        else:
            import torch.distributed as dist
        dist.init_process_group(HERE)
        """,
    "a stub of its own under except": """
        try:
            import torch.distributed as dist
        except ImportError:
            class dist: pass
        dist.init_process_group(HERE)
        """,
    "perhaps rebound": """
        import torch.distributed as dist
        if fake:
            dist = make_fake()
        dist.init_process_group(HERE)
        """,
    "rebound in a loop": """
        import torch.distributed as dist
        for _ in range(2):
            dist.init_process_group(HERE)
            dist = wrap()
        """,
    "two stars": "from torch.distributed import *\nfrom mylib import *\ninit_process_group(HERE)",
}

NO = {
    "getattr of its own": "import torch.distributed as dist\nfrom six import getattr\n"
    'getattr(dist, "init_process_group")(HERE)',
    "getattr with a default": 'import torch.distributed as dist\ngetattr(dist, "init_process_group", print)(HERE)',
    "getattr of something computed": "import torch.distributed as dist\ngetattr(dist, name)(HERE)",
    "getattr of a dotted name": 'import torch\ngetattr(torch, "distributed.init_process_group")(HERE)',
    "getattr of another object": 'import torch.distributed as dist\ngetattr(self.dist, "init_process_group")(HERE)',
    "not imported": "torch.distributed.init_process_group(HERE)",
    "local function": "import torch\ndef init_process_group(x): pass\ninit_process_group(HERE)",
    "function shadows the import": """
        from torch.distributed import init_process_group
        def init_process_group(x): pass
        init_process_group(HERE)
        """,
    "parameter": """
        import torch.distributed as dist
        def f(dist):
            dist.init_process_group(HERE)
        """,
    "star parameter": """
        import torch.distributed as dist
        def f(*dist, **kw):
            dist.init_process_group(HERE)
        """,
    "keyword-only parameter": """
        import torch.distributed as dist
        def f(*, dist=None):
            dist.init_process_group(HERE)
        """,
    "lambda parameter": "import torch.distributed as dist\nf = lambda dist: dist.init_process_group(HERE)",
    "comprehension variable": "import torch.distributed as dist\n[dist.init_process_group(HERE) for dist in groups]",
    "loop variable": "import torch.distributed as dist\nfor dist in groups:\n    dist.init_process_group(HERE)",
    "with target": "import torch.distributed as dist\nwith fake() as dist:\n    dist.init_process_group(HERE)",
    "exception name": """
        def f():
            try: pass
            except E as dist:
                dist.init_process_group(HERE)
        """,
    "walrus": "import torch.distributed as dist\nif dist := fake(): dist.init_process_group(HERE)",
    "match capture": """
        import torch.distributed as dist
        match x:
            case {"dist": dist}:
                dist.init_process_group(HERE)
        """,
    "rebound before": "import torch.distributed as dist\ndist = fake()\ndist.init_process_group(HERE)",
    "another library": "import deepspeed.comm as dist\ndist.init_process_group(HERE)",
    "another library's function": "from paddle.distributed import init_process_group\ninit_process_group(HERE)",
    "relative": "from .distributed import init_process_group\ninit_process_group(HERE)",
    "relative torch": "from .torch import distributed\ndistributed.init_process_group(HERE)",
    "a package that begins alike": "import torch_xla.distributed as dist\ndist.init_process_group(HERE)",
    "other torch function": "from torch.distributed import barrier as init_process_group\ninit_process_group(HERE)",
    "result of a call": "import torch\nload(torch).distributed.init_process_group(HERE)",
    "attribute": "import torch.distributed as dist\nself.dist.init_process_group(HERE)",
    "tuple from a call": "torch, _ = try_import('torch')\ntorch.distributed.init_process_group(HERE)",
    "local in the same function": """
        import torch.distributed as dist
        def f():
            dist = fake()
            dist.init_process_group(HERE)
        """,
    "function of that name in the function": """
        from torch.distributed import init_process_group
        def f():
            def init_process_group(x): pass
            init_process_group(HERE)
        """,
    "nonlocal of another function": """
        import torch.distributed as dist
        def f():
            dist = fake()
            def g():
                nonlocal dist
                dist.init_process_group(HERE)
        """,
    "star of another module": "from mylib import *\ninit_process_group(HERE)",
    "class attribute is invisible in methods": """
        class A:
            import torch.distributed as dist
            def f(self):
                dist.init_process_group(HERE)
        """,
}


@pytest.mark.parametrize("source", SURELY.values(), ids=SURELY)
def test_surely_torch(source: str) -> None:
    assert asked(source) == "surely"


@pytest.mark.parametrize("source", PERHAPS.values(), ids=PERHAPS)
def test_perhaps_torch(source: str) -> None:
    assert asked(source) == "perhaps"


@pytest.mark.parametrize("source", NO.values(), ids=NO)
def test_not_torch(source: str) -> None:
    assert asked(source) == "no"


# -- spelling a name, and where its import goes ----------------------------------------------------------------


def spelled(source: str, name: str = "torch.device", prefer: Import | None = None) -> tuple[str | None, str]:
    """The spelling of a name at the call with HERE, and the module with the import that it needs."""
    module = module_of(source)
    (at,) = (
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Name) and a.id == "HERE" for a in node.args)
    )
    spelling = module.spell(name, at, prefer)
    if spelling is None:
        return None, module.text
    text = module.rebuild(insertions(module, spelling.imports))
    assert compiles(text)
    return spelling.text, text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("import torch\nf(HERE)", "torch.device", id="module"),
        pytest.param("import torch as t\nf(HERE)", "t.device", id="alias"),
        pytest.param("import torch.nn\nf(HERE)", "torch.device", id="submodule binds the top"),
        pytest.param("from torch import device\nf(HERE)", "device", id="name itself"),
        pytest.param("from torch import device as D\nimport torch\nf(HERE)", "D", id="shortest"),
        pytest.param("from torch import *\nf(HERE)", "torch.device", id="star"),
        pytest.param("def f():\n    import torch\n    f(HERE)", "torch.device", id="in the function"),
        pytest.param("def f():\n    f(HERE)\nimport torch", "torch.device", id="imported below, used later"),
        pytest.param(
            "try:\n    import torch\nexcept ImportError:\n    torch = None\nf(HERE)", "torch.device", id="try"
        ),
        pytest.param("import torch\ndef f(torch_):\n    f(HERE)", "torch.device", id="other parameter"),
    ],
)
def test_a_name_in_scope_is_used(source: str, text: str) -> None:
    found, after = spelled(source)
    assert found == text
    assert after == module_of(source).text


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def g(torch):\n    f(HERE)", id="parameter"),
        pytest.param("torch = load()\nf(HERE)", id="module variable"),
        pytest.param("import torch\ndef g(torch):\n    f(HERE)", id="parameter over import"),
        pytest.param("def g():\n    torch = load()\n    f(HERE)", id="local variable"),
        pytest.param("f(HERE)\nimport os", id="all imports come later"),
    ],
)
def test_no_spelling_where_the_name_is_taken(source: str) -> None:
    assert spelled(source) == (None, module_of(source).text)


PLACES = {
    "empty head": ("f(HERE)\n", "import torch\nf(HERE)\n"),
    "docstring": ('"""Doc."""\nf(HERE)\n', '"""Doc."""\n\nimport torch\nf(HERE)\n'),
    "docstring of several lines": (
        '"""Doc.\n\nMore.\n"""\n\nf(HERE)\n',
        '"""Doc.\n\nMore.\n"""\n\nimport torch\n\nf(HERE)\n',
    ),
    "future": (
        '"""Doc."""\nfrom __future__ import annotations\nf(HERE)\n',
        '"""Doc."""\nfrom __future__ import annotations\nimport torch\nf(HERE)\n',
    ),
    "cookie": ("#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nf(HERE)\n", None),
    "beside torch": (
        "import os\nimport torch.nn as nn\nf(HERE)\n",
        "import os\nimport torch\nimport torch.nn as nn\nf(HERE)\n",
    ),
    "before from": (
        "import os\nfrom torch import nn\n\nf(HERE)\n",
        "import os\nimport torch\nfrom torch import nn\n\nf(HERE)\n",
    ),
    "after the others": ("import os\nimport sys\n\nf(HERE)\n", "import os\nimport sys\nimport torch\n\nf(HERE)\n"),
    "never in TYPE_CHECKING": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n\nf(HERE)\n",
        "from typing import TYPE_CHECKING\nimport torch\n\nif TYPE_CHECKING:\n    import torch\n\nf(HERE)\n",
    ),
    "code before the imports": (
        "import os\nos.environ['A'] = '1'\nfrom torch import nn\nf(HERE)\n",
        "import os\nos.environ['A'] = '1'\nimport torch\nfrom torch import nn\nf(HERE)\n",
    ),
    "import of several lines": (
        "from torch import (\n    nn,\n    optim,\n)\nf(HERE)\n",
        "import torch\nfrom torch import (\n    nn,\n    optim,\n)\nf(HERE)\n",
    ),
    "not below its use": ("import os\nf(HERE)\nimport sys\n", "import os\nimport torch\nf(HERE)\nimport sys\n"),
    "beside the function's own import": (
        "import os\n\ndef g():\n    if os:\n        from torch import distributed\n        f(HERE)\n",
        "import os\n\ndef g():\n    if os:\n        import torch\n        from torch import distributed\n        "
        "f(HERE)\n",
    ),
    "at the top when the module imports torch": (
        "from torch import nn\n\ndef g():\n    from torch import distributed\n    f(HERE)\n",
        "import torch\nfrom torch import nn\n\ndef g():\n    from torch import distributed\n    f(HERE)\n",
    ),
    "torch is imported after other code": (
        "import os\n\nx = 1\n\nfrom torch import nn\n\ndef g():\n    f(HERE)\n",
        "import os\n\nx = 1\n\nimport torch\nfrom torch import nn\n\ndef g():\n    f(HERE)\n",
    ),
    "docstring and code on one line": ('"""Doc."""; f(HERE)\n', '"""Doc."""; import torch; f(HERE)\n'),
    "semicolons": ("import os; f(HERE)\n", None),
    "no final newline": ("import os; f(HERE)", None),
    "only an import, no final newline": ("def g():\n    f(HERE)\nimport os", None),
}


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=PLACES)
def test_a_new_import_goes_where_it_belongs(before: str, after: str | None) -> None:
    text, found = spelled(before)
    assert text == "torch.device"
    if after is not None:
        assert found == after
    added = [line for line in ndiff(before.splitlines(), found.splitlines()) if line[0] in "+-"]
    assert len(added) <= 2 or "; " in before, added
    use = found.index("f(HERE)")
    assert found.index("import torch") < use or "def g" in found


def test_several_imports_each_once_and_in_order() -> None:
    module = module_of("import os\n\nx = 1\n")
    wanted = [Import("torch"), Import("torch", "nn"), Import("torch"), Import("abc", "ABC", "Base")]
    text = module.rebuild(insertions(module, wanted))
    assert text == "import os\nfrom abc import ABC as Base\nimport torch\nfrom torch import nn\n\nx = 1\n"


def test_an_import_that_is_there_is_not_added_again() -> None:
    module = module_of("import torch\nfrom torch import nn\n")
    assert insertions(module, [Import("torch"), Import("torch", "nn")]) == []


def test_a_preferred_import() -> None:
    text, after = spelled("f(HERE)\n", "torch.nn.functional.scaled_mm", Import("torch.nn.functional", None, "F"))
    assert text == "F.scaled_mm"
    assert after == "import torch.nn.functional as F\nf(HERE)\n"


def test_windows_line_ends_of_a_new_import() -> None:
    text = "import os\r\n\r\nf(HERE)\r\n"
    module = Module("a.py", text, parse_python(text))
    assert module.rebuild(insertions(module, [Import("torch")])) == "import os\r\nimport torch\r\n\r\nf(HERE)\r\n"
