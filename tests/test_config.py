"""Which file counts, what it may say, and that every mistake in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import SAMPLE, TOYS, Shell

from torchmigrate import config
from torchmigrate.config import ConfigError
from torchmigrate.model import Override, Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def effective(path: Path, **flags: object) -> Settings:
    return config.settings(config.load(str(path)), flags, {})[0]


def test_the_nearest_file_wins_and_nothing_is_merged(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.torchmigrate]\nselect = ["TM1"]\nignore = ["TM2"]\n')
    near = write(tmp_path / "a" / "b" / "pyproject.toml", '[tool.torchmigrate]\nselect = ["TM4"]\n')
    inside = tmp_path / "a" / "b" / "c"
    inside.mkdir()
    found = config.find(str(inside))
    assert found == str(near)
    settings = effective(Path(found))
    assert (settings.select, settings.ignore) == (("TM4",), ())


def test_a_pyproject_without_our_table_is_passed_over(tmp_path: Path) -> None:
    far = write(tmp_path / "torchmigrate.toml", "jobs = 3\n")
    write(tmp_path / "a" / "pyproject.toml", '[project]\nname = "torchmigrate"\n')
    assert config.find(str(tmp_path / "a")) == str(far)


def test_the_file_of_its_own_wins_over_pyproject(tmp_path: Path) -> None:
    own = write(tmp_path / "torchmigrate.toml", "jobs = 3\n")
    write(tmp_path / "pyproject.toml", "[tool.torchmigrate]\njobs = 2\n")
    assert config.find(str(tmp_path)) == str(own)


def test_every_key(tmp_path: Path) -> None:
    path = write(
        tmp_path / "torchmigrate.toml",
        """
        select = ["TM1", "TM4"]
        ignore = ["TM103"]
        include = ["src/**"]
        exclude = ["third_party/"]
        min-torch = "2.12"
        baseline = "ci/known.json"
        jobs = 3
        timeout = 30
        max-size = "2MB"
        gitignore = false
        cache = false
        include-stubs = true
        include-generated = true

        [TM401]
        reduce-dtype = "float32"

        [[overrides]]
        paths = ["legacy/**"]
        ignore = ["TM1"]
        [overrides.TM401]
        reduce-dtype = "preserve"
        """,
    )
    home = str(tmp_path)
    assert effective(path) == Settings(
        select=("TM1", "TM4"),
        ignore=("TM103",),
        include=("src/**",),
        exclude=("third_party/",),
        select_from=str(path),
        ignore_from=str(path),
        include_from=home,
        exclude_from=home,
        min_torch="2.12",
        baseline=str(tmp_path / "ci" / "known.json"),
        jobs=3,
        timeout=30.0,
        max_size=2 * 1024 * 1024,
        gitignore=False,
        cache=False,
        include_stubs=True,
        include_generated=True,
        options={"TM401": {"reduce-dtype": "float32"}},
        overrides=(Override(home, ("legacy/**",), (), ("TM1",), {"TM401": {"reduce-dtype": "preserve"}}),),
    )


def test_extend_is_read_first_and_options_are_merged(tmp_path: Path) -> None:
    base = write(tmp_path / "base.toml", 'jobs = 2\nexclude = ["a"]\n[TM401]\nreduce-dtype = "float32"\nother = 1\n')
    path = write(
        tmp_path / "sub" / "pyproject.toml",
        '[tool.torchmigrate]\nextend = "../base.toml"\njobs = 5\n'
        '[tool.torchmigrate.TM401]\nreduce-dtype = "preserve"\n',
    )
    settings, sources = config.settings(config.load(str(path)), {}, {})
    assert (settings.jobs, settings.exclude, settings.exclude_from) == (5, ("a",), str(tmp_path))
    assert settings.options == {"TM401": {"reduce-dtype": "preserve", "other": 1}}
    assert (sources["jobs"], sources["exclude"], sources["timeout"]) == (str(path), str(base), "default")


def test_a_baseline_lies_beside_the_file_that_names_it(tmp_path: Path) -> None:
    write(tmp_path / "base" / "base.toml", 'baseline = "known.json"\n')
    path = write(tmp_path / "sub" / "torchmigrate.toml", 'extend = "../base/base.toml"\n')
    named = effective(path).baseline
    assert named is not None
    assert Path(named).resolve() == tmp_path / "base" / "known.json"
    assert effective(path, baseline="other.json").baseline == "other.json"


def test_flags_win(tmp_path: Path) -> None:
    path = write(tmp_path / "torchmigrate.toml", 'select = ["TM1"]\nexclude = ["a"]\njobs = 2\n')
    settings, sources = config.settings(
        config.load(str(path)), {"select": ("TM4",), "exclude": ("b",), "jobs": None}, {}
    )
    assert (settings.select, settings.exclude, settings.exclude_from, settings.jobs) == (("TM4",), ("b",), None, 2)
    assert (sources["select"], sources["jobs"]) == ("--select", str(path))
    assert settings.select_from is None


@pytest.mark.parametrize("key", ["select", "ignore"])
def test_an_unknown_rule_is_told_where_it_is_named(tmp_path: Path, key: str) -> None:
    shell = Shell(tmp_path / "repo", tmp_path / "state")
    shell.write(
        {"base.toml": f'{key} = ["TM9"]\n'.encode(), "torchmigrate.toml": b'extend = "base.toml"\n', "a.py": b""}
    )
    path = tmp_path / "repo" / "base.toml"
    told = (2, f"error: {path}: {key}: unknown code TM9")
    for arguments in (["check"], ["check", "--config", "base.toml"], ["config"]):
        done = shell(*arguments)
        assert (done.code, done.err.partition(";")[0]) == told
    flagged = shell("check", f"--{key}", "TM8888")
    assert (flagged.code, flagged.err.partition(";")[0]) == (2, f"error: unknown code TM8888 in --{key}")


@pytest.mark.parametrize("key", ["select", "ignore"])
def test_an_unknown_rule_in_an_override_is_refused(tmp_path: Path, key: str) -> None:
    shell = Shell(tmp_path / "repo", tmp_path / "state")
    shell.write({"torchmigrate.toml": f'[[overrides]]\npaths = ["train/**"]\n{key} = ["XX9"]\n'.encode(), **SAMPLE})
    done = shell("check", *TOYS[:2])
    assert (done.code, done.out) == (2, "")
    said = f"error: the configuration in {tmp_path / 'repo'}: overrides of train/**: {key}: unknown code XX9; "
    assert done.err.startswith(said)


def test_an_unknown_rule_of_a_folder_below_is_told_at_its_configuration(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "repo", tmp_path / "state")
    shell.write({"sub/torchmigrate.toml": b'select = ["XX9"]\n', "sub/a.py": SAMPLE["train/a.py"]})
    done = shell("check", *TOYS[:2])
    assert done.code == 3
    assert "sub/torchmigrate.toml: TM012 select: unknown code XX9; " in done.out + done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selct = []", "unknown key 'selct'; did you mean 'select'?"),
        ('select = "TM1"', "select must be a list of strings"),
        ("select = [1]", "select must be a list of strings"),
        ("jobs = true", "jobs must be a whole number, 0 or more"),
        ("jobs = -1", "jobs must be a whole number, 0 or more"),
        ("timeout = 0", "timeout must be a number of seconds above 0"),
        ("gitignore = 1", "gitignore must be true or false"),
        ('max-size = "big"', "max-size 'big' is not a size such as 500kB or 4MB"),
        ("min-torch = 2.15", 'min-torch must be a version in quotes, such as "2.15"'),
        ("baseline = 1", "baseline must be a path in quotes"),
        ('baseline = ""', "baseline must be a path in quotes"),
        ('min-torch = "two"', "min-torch 'two' is not a torch version such as 2.15"),
        ("[TM401.x]\ny = 1", "TM401.x must be a plain value"),
        ("overrides = 1", "overrides must be written as [[tool.torchmigrate.overrides]] tables"),
        ('[[overrides]]\nignore = ["TM1"]', "overrides number 1: names no paths"),
        ('[[overrides]]\npath = ["x"]', "overrides number 1: unknown key 'path'; did you mean 'paths'?"),
        ("extend = 1", "extend must be a path in quotes"),
        ('extend = "gone.toml"', "No such file or directory"),
        ('extend = "torchmigrate.toml"', "extends itself"),
        ("a = ", "not valid TOML"),
        ("load = ['x.py']", "unknown key 'load'"),
    ],
)
def test_mistakes_are_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "torchmigrate.toml", text)
    with pytest.raises(ConfigError) as caught:
        config.load(str(path))
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"TM402": {}}, "unknown code TM402; did you mean 'TM401'?"),
        ({"TM401": {"reduce_dtype": 1}}, "TM401 has no option 'reduce_dtype'; did you mean 'reduce-dtype'?"),
        ({"TM401": {"reduce-dtype": "half"}}, "TM401.reduce-dtype is 'half', but must be one of preserve, float32"),
    ],
    ids=["code", "option", "value"],
)
def test_options_that_no_rule_knows_are_refused(options: dict[str, dict[str, object]], message: str) -> None:
    known = {"TM401": {"reduce-dtype": ("preserve", "float32"), "free": ()}}
    with pytest.raises(ConfigError, match=r"^here: ") as caught:
        config.check_options(Settings(options=options), known, "here")
    assert message in str(caught.value)
    config.check_options(Settings(options={"TM401": {"reduce-dtype": "float32", "free": 3}}), known, "here")


@pytest.mark.parametrize(
    ("text", "size"), [("4MB", 4 << 20), ("500kB", 500 << 10), ("12", 12), ("1.5 MiB", 3 << 19), ("1g", 1 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert config.parse_size(text) == size
