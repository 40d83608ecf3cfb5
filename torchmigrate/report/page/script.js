
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  const table = document.querySelector(".units");
  const form = document.querySelector(".filters");
  if (!table) return;
  document.documentElement.classList.add("js");
  form.hidden = false;

  const units = all("tbody", table).map((body) => {
    const details = body.querySelector("details");
    const name = body.querySelector("th.name");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name.textContent;
    details.id = body.id + "-more";
    button.setAttribute("aria-controls", details.id);
    name.replaceChildren(button);
    return { body, details, button, more: body.querySelector(".more"), groups: null };
  });
  const byBody = new Map(units.map((unit) => [unit.body, unit]));

  const fold = (unit, open) => {
    unit.details.open = open;
    unit.more.classList.toggle("open", open);
    unit.button.setAttribute("aria-expanded", String(open));
  };
  units.forEach((unit) => fold(unit, unit.details.open));
  table.addEventListener("click", (event) => {
    const row = event.target.closest("tr.unit");
    if (row && !getSelection().toString()) {
      const unit = byBody.get(row.parentNode);
      fold(unit, !unit.details.open);
    }
  });
  one("unfold").addEventListener("click", () => units.forEach((unit) => unit.body.hidden || fold(unit, true)));
  one("fold").addEventListener("click", () => units.forEach((unit) => fold(unit, false)));

  // Sorting: numbers begin with the largest, names with the first.
  all("thead th[data-sort]", table).forEach((head) => {
    const kind = head.dataset.sort;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const falling = was ? was === "ascending" : kind === "number";
      all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const column = head.cellIndex;
      const value = (unit) => {
        const cell = unit.body.rows[0].cells[column];
        return kind === "number" ? Number(cell.dataset.n) : kind === "name" ? unit.body.dataset.name : cell.textContent;
      };
      const compare = kind === "number" ? (a, b) => a - b : (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      const keyed = units.map((unit) => [value(unit), unit]);
      keyed.sort((a, b) => (falling ? -1 : 1) * compare(a[0], b[0]));
      table.append(...keyed.map((pair) => pair[1].body));
    });
  });

  // Filtering. What is searched is read on first use: a page may hold thousands of places.
  const read = (unit) => {
    unit.groups ??= all(".group", unit.body).map((group) => ({
      group,
      rule: group.dataset.rule,
      places: all("article", group).map((place) => ({
        place,
        level: place.dataset.level,
        owners: place.dataset.owners.split("\n"),
        fresh: "new" in place.dataset,
        text: [unit.body.dataset.name, place.dataset.path, group.dataset.rule, place.dataset.owners, place.children[1].textContent]
          .join("\n").toLowerCase(),
      })),
    }));
    return unit.groups;
  };
  const q = one("q"), rule = one("rule"), owner = one("owner"), fresh = one("new");
  const owned = () => owner?.value ?? "";
  const total = all("article", table).length;
  const number = (n) => n.toLocaleString("en-US");
  const links = all("[data-filter]");
  const filter = () => {
    const wanted = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const levels = new Set(all("[name=level]:checked", form).map((box) => box.value));
    const every = all("[name=level]", form).every((box) => box.checked);
    const narrow = wanted.length || rule.value || owned() || fresh?.checked || !every;
    let shown = 0, rows = 0;
    for (const unit of units) {
      let here = 0;
      for (const { group, rule: code, places } of read(unit)) {
        let left = 0;
        for (const one of places) {
          const fits = levels.has(one.level) && (!rule.value || code === rule.value)
            && (!owned() || one.owners.includes(owned())) && (!fresh?.checked || one.fresh)
            && wanted.every((word) => one.text.includes(word));
          if (one.place.hidden === fits) one.place.hidden = !fits;
          left += fits;
        }
        if (group.hidden === left > 0) group.hidden = !left;
        here += left;
      }
      const bare = !unit.groups.length && !rule.value && !owned() && !fresh?.checked
        && wanted.every((word) => unit.body.textContent.toLowerCase().includes(word));
      const fits = here > 0 || bare || !narrow;
      if (unit.body.hidden === fits) unit.body.hidden = !fits;
      shown += here;
      rows += fits;
    }
    const noun = rows === 1 ? form.dataset.noun : form.dataset.nouns;
    one("count").textContent = `${number(shown)} of ${number(total)} shown, in ${number(rows)} ${noun}`;
    for (const link of links) link.toggleAttribute("aria-current", one(link.dataset.filter).value === link.dataset.value);
    one("none").hidden = rows > 0 || !units.length;
  };
  let waiting = 0;
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 120);
  };
  form.addEventListener("input", (event) => (event.target === q ? soon() : filter()));
  form.addEventListener("change", (event) => event.target === q || filter());
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-filter]");
    if (!link) return;
    const select = one(link.dataset.filter);
    select.value = select.value === link.dataset.value ? "" : link.dataset.value;
    filter();
  });

  // A link to something folded away unfolds it, and lifts a filter that hides it.
  const reveal = () => {
    const target = location.hash.length > 1 && one(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const body = target.closest("tbody");
    if (body) {
      if (target.hidden || body.hidden) {
        form.reset();
        all("[name=level]", form).forEach((box) => (box.checked = true));
        filter();
      }
      fold(byBody.get(body), true);
    }
    if (target.matches("details")) target.open = true;
    target.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) reveal();
  });

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input[type=search], select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      q.focus();
      q.select();
    } else if (event.key === "Escape" && event.target === q && q.value) {
      q.value = "";
      filter();
    }
  });
  filter();
  reveal();
})();
