"""The page for people, opened in a real browser where there is one: Debian's chromium and chromium-driver."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commandline import TOYS, Shell

from torchmigrate.model import Finding, Hunk, Outcome, Safety, Span
from torchmigrate.report import html
from torchmigrate.report.view import Item, Level, RuleText, Unit, View

PAYLOAD = "<script>window.pwned=1<⁄script><img src=x onerror=window.pwned=1>"
CODE = "toy_call('</script><script>window.pwned=1</script>\"><svg/onload=window.pwned=1>{{7*7}}')\n"
FILES = {
    "a/pyproject.toml": b"[project]\nname = 'a'\n",
    "b/pyproject.toml": b"[project]\nname = 'b'\n",
    "c/pyproject.toml": b"[project]\nname = 'c'\n",
    f"a/{PAYLOAD}.py": CODE.encode(),
    "a/bidi.py": "toy_call(5)  # \u202e\u2066 if admin\u2069\n".encode(),
    "a/many.py": b"toy_call(1)\ntoy_sum([1])\n",
    "b/unsafe.py": b"toy_call('unsafe')\n",
    "b/manual.py": b"def f():\n    toy_call('manual')\n",
    "b/ignored.py": b"toy_call(1)  # torchmigrate: ignore[XX101] <i>why</i>\n",
    "c/one.py": b"toy_call(1)\n",
    "c/broken.py": b"toy_call(\n",
    "CODEOWNERS": b"/a/ @org/<b>bold</b>\n/b/ @org/trainers @org/platform\n",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a hostile repository of three projects, against an earlier one that lacks two files."""
    folder = tmp_path_factory.mktemp("report")
    shell = Shell(folder / "repo", folder / "state")
    shell.write({name: content for name, content in FILES.items() if name not in ("c/one.py", "b/unsafe.py")})
    shell.commit()
    (folder / "old.json").write_bytes(shell("check", *TOYS, "--format", "json").raw)
    shell.write(FILES)
    done = shell("check", *TOYS, "--html", str(folder / "report.html"), "--compare", str(folder / "old.json"))
    assert done.code == 3
    assert f"Wrote the report to {folder / 'report.html'}." in done.err
    return folder / "report.html"


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and the text outside of style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.within: dict[str, str] = {}
        self.text = ""
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("style", "script"):
            self.within[self._open] = self.within.get(self._open, "") + data
        else:
            self.text += data


# -- without a browser -----------------------------------------------------------------------------------------


def test_everything_hostile_is_text(page: Path) -> None:
    parsed = Parsed(page.read_text(encoding="utf-8"))
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("script") == tags.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "link", "base", "image", "foreignobject"} & set(tags)
    for tag, attributes in parsed.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "srcset")], tag
        assert (attributes.get("href") or "#").startswith(("#", "https://"))
    assert f"a/{PAYLOAD}.py".removeprefix("a/") in parsed.text
    assert "</script><script>window.pwned=1</script>" in parsed.text
    assert "<i>why</i>" in parsed.text
    assert "@org/<b>bold</b>" in parsed.text
    assert "{{7*7}}" in parsed.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", parsed.text)
    assert "\\u202e" in parsed.text


def test_the_policy_admits_the_page_alone(page: Path) -> None:
    parsed = Parsed(page.read_text(encoding="utf-8"))
    (policy,) = [a["content"] for t, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))
    assert rules["default-src"] == "'none'"
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(parsed.within[kind].encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"


def test_the_same_run_gives_the_same_page(page: Path, tmp_path: Path) -> None:
    folder = page.parent
    shell = Shell(folder / "repo", folder / "state")
    other = tmp_path / "again.html"
    shell("check", *TOYS, "-j", "1", "--no-cache", "--html", str(other), "--compare", str(folder / "old.json"))
    assert other.read_bytes() == page.read_bytes()


def test_without_the_template_engine_the_remedy_is_named(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "repo", tmp_path / "state")
    shell.write({"m.py": b"toy_call(1)\n"})
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jinja2.py").write_text("raise ImportError('not here')\n")
    done = shell("check", *TOYS, "--html", "out.html", env={"PYTHONPATH": str(hidden)})
    assert done.code == 2
    assert "pip install 'torchmigrate[html]'" in done.err
    assert not (shell.folder / "out.html").exists()


def test_a_dry_run_and_a_run_that_writes(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "repo", tmp_path / "state")
    shell.write({"m.py": b"toy_call(1)\n", "u.py": b"toy_call('unsafe')\n"})
    shell("diff", *TOYS, "--html", "dry.html")
    dry = Parsed((shell.folder / "dry.html").read_text(encoding="utf-8"))
    assert "nothing is written" in dry.text
    assert [a["data-level"] for t, a in dry.elements if t == "article"] == ["safe", "unsafe"]
    shell("apply", "--yes", "--allow-dirty", *TOYS, "--html", "done.html")
    done = Parsed((shell.folder / "done.html").read_text(encoding="utf-8"))
    assert "changes are written" in done.text
    assert [a["data-level"] for t, a in done.elements if t == "article"] == ["done", "unsafe"]
    assert "toy_call(1, device=0)" in done.text


def test_references_are_links_only_to_https() -> None:
    assert RuleText("X1", "x", reference="https://example.org/a").link == "https://example.org/a"
    assert RuleText("X1", "x", reference="javascript:alert(1)").link is None


def many(files: int, each: int) -> View:
    """A view of one project with many places."""
    rules = {f"XX{n}": RuleText(f"XX{n}", f"rule-{n}", text=f"Title {n}.\n\nWhy `{n}`.") for n in range(1, 9)}
    units = []
    for number in range(files):
        items = []
        for place in range(each):
            code = f"XX{1 + (number + place) % 8}"
            manual = place % 4 == 0
            finding = Finding(
                path=f"pkg/m{number}.py",
                span=Span(place + 1, 1, place + 1, 12),
                code=code,
                name=rules[code].name,
                outcome=Outcome.REPORT if manual else Outcome.REWRITE,
                safety=Safety.MANUAL if manual else Safety.SAFE,
                message=f"place {place} of file {number}",
                before="toy_call(1)",
                after=None if manual else "toy_call(1, device=0)",
                key=f"{code}:{place}",
            )
            lines = (b" a = 1\n", b" b = 2\n", b"-toy_call(1)\n", b"+toy_call(1, device=0)\n", b" c = 3\n")
            hunks = () if manual else (Hunk(place, 4, place, 4, lines),)
            owners = (f"@org/team-{number % 12}",)
            items.append(Item((finding,), Level.MANUAL if manual else Level.SAFE, hunks, owners=owners))
        units.append(Unit(f"pkg/m{number}.py", tuple(items), owners=items[0].owners))
    return View("file", tuple(units), rules)


# -- in a browser ----------------------------------------------------------------------------------------------


def wait(check: Any) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(None, 60, poll_frequency=0.05).until(lambda _: check())


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium that records every request and every message of scripts."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    from selenium.common.exceptions import WebDriverException

    try:
        opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    except WebDriverException as error:
        pytest.skip(f"chromium does not start: {error.msg}")
    opened.set_page_load_timeout(120)
    opened.set_script_timeout(120)
    yield opened
    opened.quit()


class Screen:
    """A page in the browser."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def open(self, page: Path, width: int = 1280, scheme: str = "light", scripts: bool = True) -> Screen:
        command = self.browser.execute_cdp_cmd
        command("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        command("Emulation.setDeviceMetricsOverride", size)
        self.browser.get("about:blank")
        for kind in ("browser", "performance"):
            self.browser.get_log(kind)
        self.browser.get(page.as_uri())
        return self

    def all(self, selector: str) -> list[Any]:
        return list(self.browser.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def run(self, script: str) -> Any:
        return self.browser.execute_script(f"return {script}")

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    @property
    def rows(self) -> list[str]:
        """The names of the rows on screen, in order."""
        return self.run("[...document.querySelectorAll('tbody:not([hidden]) th.name')].map(n => n.textContent)")

    @property
    def places(self) -> list[str]:
        """The places that the filter leaves, in order."""
        return self.run(
            "[...document.querySelectorAll('.units article')].filter(a => !a.closest('[hidden]'))"
            ".map(a => a.querySelector('h4 code').textContent)"
        )

    @property
    def count(self) -> str:
        return str(self.one("#count").text)

    @property
    def focused(self) -> str:
        return str(self.run("document.activeElement.textContent || document.activeElement.id"))

    def unfolded(self, name: str) -> bool:
        (button,) = [b for b in self.all("th.name button") if b.text == name]
        row = button.find_element("xpath", "ancestor::tbody")
        shown = row.find_element("css selector", "details").is_displayed()
        assert button.get_attribute("aria-expanded") == ("true" if shown else "false")
        return bool(shown)


@pytest.fixture
def screen(browser: Any, page: Path) -> Iterator[Screen]:
    """The hostile report; whatever a test does with it, no script fails, nothing is fetched, no payload runs."""
    opened = Screen(browser).open(page)
    yield opened
    opened.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert opened.run("window.pwned === undefined && document.scripts.length === 1")
    assert opened.browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in opened.browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert {url.split("#")[0] for url in asked} <= {page.as_uri()}


def test_the_payload_is_shown(screen: Screen) -> None:
    screen.one("#unfold").click()
    assert f"{PAYLOAD}.py:1" in screen.places
    shown = "\n".join(element.text for element in screen.all("article pre"))
    assert CODE.rstrip("\n").removesuffix(")") in shown.replace("\n", "")


def test_sorting(screen: Screen) -> None:
    assert screen.rows == ["a", "b", "c"]
    (name,) = [b for b in screen.all("thead button") if b.text == "project"]
    name.click()
    assert (screen.rows, screen.one("th[data-sort=name]").get_attribute("aria-sort")) == (["a", "b", "c"], "ascending")
    name.click()
    assert (screen.rows, screen.one("th[data-sort=name]").get_attribute("aria-sort")) == (["c", "b", "a"], "descending")
    (unsafe,) = [b for b in screen.all("thead button") if b.text == "unsafe"]
    unsafe.click()
    assert screen.rows[0] == "b"
    assert len(screen.all("th[aria-sort]")) == 1


def test_filtering(screen: Screen) -> None:
    assert screen.count == "7 of 8 shown, in 3 projects"
    screen.one("#q").send_keys("manual.py")
    wait(lambda: screen.count == "1 of 8 shown, in 1 project")
    assert (screen.rows, screen.places) == (["b"], ["manual.py:2"])
    screen.one("#q").clear()
    screen.one("#q").send_keys("no such thing")
    wait(lambda: screen.one("#none").is_displayed())
    assert screen.rows == []
    screen.one("#clear").click()
    wait(lambda: screen.count == "7 of 8 shown, in 3 projects")
    screen.one("#owner option[value='@org/platform']").click()
    assert screen.rows == ["b"]
    screen.one("#clear").click()
    wait(lambda: screen.count == "7 of 8 shown, in 3 projects")
    screen.one("input[value=ignored]").click()
    screen.one("input[value=safe]").click()
    assert [place.split(":")[0] for place in screen.places] == ["ignored.py", "manual.py", "unsafe.py"]
    screen.one("#clear").click()
    wait(lambda: screen.count == "7 of 8 shown, in 3 projects")
    screen.one("#new").click()
    assert screen.places == ["unsafe.py:1", "one.py:1"]
    screen.one("#new").click()
    screen.one(".chart a[data-filter=rule]").click()
    assert screen.one("#rule").get_property("value") == screen.one(".chart a[data-filter=rule] .key").text
    assert screen.one(".chart a[data-filter=rule]").get_attribute("aria-current") is not None


def test_unfolding_a_diff(screen: Screen) -> None:
    screen.one("#fold").click()
    assert not screen.unfolded("b")
    (row,) = [r for r in screen.all("tr.unit") if r.text.startswith("b")]
    row.click()
    assert screen.unfolded("b")
    added = screen.one("tbody[data-name=b] article:not([hidden]) ins")
    assert added.is_displayed()
    assert added.text == "+toy_call('unsafe', device=0)"
    assert screen.one("tbody[data-name=b] .why").is_displayed()
    row.click()
    assert not screen.unfolded("b")


def test_keyboard(screen: Screen) -> None:
    screen.one("#fold").click()
    screen.press("/")
    assert screen.run("document.activeElement.id") == "q"
    screen.press("unsafe")
    wait(lambda: screen.rows == ["b"])
    screen.press("\ue00c")
    assert screen.rows == ["a", "b", "c"]
    for _ in range(20):
        screen.press("\ue004")
        if screen.focused == "project":
            break
    assert screen.focused == "project"
    screen.press("\ue007")
    screen.press("\ue007")
    assert screen.rows == ["c", "b", "a"]
    for _ in range(20):
        screen.press("\ue004")
        if screen.focused == "c":
            break
    assert not screen.unfolded("c")
    screen.press("\ue007")
    assert screen.unfolded("c")
    screen.press(" ")
    assert not screen.unfolded("c")
    outline = screen.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_task_leads_to_its_place(screen: Screen) -> None:
    screen.one("#fold").click()
    screen.one("#q").send_keys("c/one")
    wait(lambda: screen.rows == ["c"])
    screen.all(".people .task")[-1].find_element("css selector", "summary").click()
    (link,) = [a for a in screen.all(".people .list a") if a.text == "b/manual.py:2"]
    link.click()
    wait(lambda: "b" in screen.rows and screen.unfolded("b"))
    assert screen.one("article:target h4 code").text == "manual.py:2"
    assert screen.one("article:target").is_displayed()


def test_progress_is_told(screen: Screen) -> None:
    told = screen.one(".progress").text
    assert "0 of 5 done · 5 left · 2 new" in told
    assert len(screen.all("article[data-new]")) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_and_can_be_read(screen: Screen, page: Path, width: int, scheme: str) -> None:
    screen.open(page, width, scheme)
    screen.one("#unfold").click()
    assert screen.run("document.documentElement.scrollWidth") <= width
    colours = [
        screen.run(f"getComputedStyle(document.querySelector('{selector}')).{which}")
        for selector, which in (("body", "backgroundColor"), ("body", "color"), (".lead", "color"))
    ]
    back, text, muted = (luminance(colour) for colour in colours)
    assert (back > 0.5) == (scheme == "light")
    levels = ("safe", "unsafe", "manual", "ignored")
    badges = [luminance(screen.run(f"getComputedStyle(document.querySelector('.badge.{n}')).color")) for n in levels]
    panel = luminance(screen.run("getComputedStyle(document.querySelector('.units')).backgroundColor"))
    for behind, front in ((back, text), (back, muted), *((panel, badge) for badge in badges)):
        assert (max(behind, front) + 0.05) / (min(behind, front) + 0.05) >= 4.5


def luminance(colour: str) -> float:
    """The relative luminance of a colour as browsers write it, after WCAG."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_it_can_be_read_without_scripts(screen: Screen, page: Path) -> None:
    screen.open(page, scripts=False)
    assert not screen.one(".filters").is_displayed()
    unfolds = screen.one("tbody details > summary")
    assert unfolds.is_displayed()
    if not screen.one("tbody ins").is_displayed():
        unfolds.click()
    assert screen.one("tbody ins").is_displayed()


def test_nothing_found(browser: Any, tmp_path: Path) -> None:
    target = tmp_path / "none.html"
    target.write_bytes(html.encoded(html.render(View("file", ()))))
    screen = Screen(browser).open(target)
    assert "Nothing found that the upgrade touches." in screen.one("main").text
    assert not screen.all("table, form")
    assert browser.get_log("browser") == []


def test_ten_thousand_places(browser: Any, tmp_path: Path) -> None:
    target = tmp_path / "many.html"
    target.write_bytes(html.encoded(html.render(many(1000, 10))))
    screen = Screen(browser).open(target)
    assert screen.count == "10,000 of 10,000 shown, in 1,000 files"
    screen.one("#q").send_keys("pkg/m77.py")
    wait(lambda: screen.count == "10 of 10,000 shown, in 1 file")
    assert screen.rows == ["pkg/m77.py"]
    screen.one("#clear").click()
    wait(lambda: screen.count == "10,000 of 10,000 shown, in 1,000 files")
    screen.one("input[value=safe]").click()
    wait(lambda: screen.count == "3,000 of 10,000 shown, in 1,000 files")
    (name,) = [b for b in screen.all("thead button") if b.text == "file"]
    name.click()
    assert screen.rows[:3] == ["pkg/m0.py", "pkg/m1.py", "pkg/m10.py"]
    assert browser.get_log("browser") == []
