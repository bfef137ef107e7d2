(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("scripted");

  // Theme: the system's unless the reader chose one
  const remembered = (() => { try { return localStorage.getItem("monocal-theme"); } catch { return null; } })();
  if (remembered) root.dataset.theme = remembered;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const themeButton = document.getElementById("theme");
  const nameTheme = () => { themeButton.textContent = isDark() ? "Light" : "Dark"; themeButton.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  themeButton.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("monocal-theme", root.dataset.theme); } catch { /* a file opened from disk may not remember */ }
    nameTheme();
  });
  nameTheme();

  // Tasks as tabs
  const tabs = all("[role=tab]");
  const choose = (tab, focus) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
  };
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { event.preventDefault(); choose(tabs[(place + step + tabs.length) % tabs.length], true); }
    });
  });
  if (tabs.length) choose(tabs[0]);
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const panel = target && target.closest(".panel");
    if (panel && panel.hidden) { choose(tabs.find((tab) => tab.getAttribute("aria-controls") === panel.id)); target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  reveal();

  // Tables: sort, filter, show all, save
  const shownNumber = (cell) => {
    const words = cell.firstChild ? cell.firstChild.textContent.trim() : "";
    if (words === "∞") return Infinity;
    const number = parseFloat(words.replaceAll(",", "").replace("−", "-"));
    return Number.isNaN(number) ? null : number;
  };
  const order = (cell) => {
    const kept = cell.dataset.v;
    if (kept === undefined) return cell.classList.contains("n") ? shownNumber(cell) : cell.textContent.trim().toLowerCase();
    if (kept === "") return null;
    const number = Number(kept);
    return Number.isNaN(number) ? kept.toLowerCase() : number;
  };
  for (const table of all("table")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const box = table.closest(".tablebox");
    const status = box.querySelector("[role=status]");
    const more = box.querySelector(".more");
    const limit = Number(table.dataset.shown);
    const search = box.querySelector("[data-search]");
    const choices = all("[data-tag]", box);
    let open = false;
    const matching = () => {
      const needle = search ? search.value.trim().toLowerCase() : "";
      const wanted = choices.map((choice) => choice.value).filter(Boolean);
      return [...body.rows].filter((row) => {
        const tags = (row.dataset.k || "").split(" ");
        return wanted.every((tag) => tags.includes(tag)) && (!needle || row.textContent.toLowerCase().includes(needle));
      });
    };
    const draw = () => {
      const found = matching();
      const shown = new Set(open ? found : found.slice(0, limit));
      for (const row of rows) row.hidden = !shown.has(row);
      status.textContent = shown.size < rows.length ? `${shown.size} of ${rows.length} rows` : `${rows.length} rows`;
      more.hidden = found.length <= limit;
      more.textContent = open ? "Show fewer" : `Show all ${found.length}`;
    };
    all("thead th", table).forEach((head, column) => {
      head.querySelector(".sort").addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.classList.contains("n"));
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keyed = [...body.rows].map((row, place) => ({ row, place, key: order(row.cells[column]) }));
        keyed.sort((a, b) => {
          if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
          const mixed = typeof a.key !== typeof b.key;
          const [x, y] = mixed ? [String(a.key), String(b.key)] : [a.key, b.key];
          return ((x > y) - (x < y)) * (up ? 1 : -1) || a.place - b.place;
        });
        body.append(...keyed.map((one) => one.row));
        draw();
      });
    });
    more.addEventListener("click", () => { open = !open; draw(); });
    if (search) search.addEventListener("input", draw);
    for (const choice of choices) choice.addEventListener("change", draw);
    box.querySelector(".csv").addEventListener("click", () => {
      const quote = (words) => `"${words.replace(/\s+/g, " ").trim().replaceAll('"', '""')}"`;
      const plain = (cell) => {
        if (cell.dataset.v) return quote(cell.dataset.v);
        const number = cell.classList.contains("n") ? shownNumber(cell) : null;
        return quote(number === null ? cell.textContent : String(number));
      };
      const lines = [[...table.tHead.rows[0].cells].map((cell) => quote(cell.textContent)), ...matching().map((row) => [...row.cells].map(plain))];
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\n")], { type: "text/csv" }));
      link.download = `${table.id}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    draw();
  }

  // Charts: hide a side, read a point by mouse, finger or arrow keys
  for (const key of all("[data-hide]")) {
    key.addEventListener("click", () => {
      const on = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", on);
      key.closest("figure").classList.toggle(`no-${key.dataset.hide}`, !on);
    });
  }
  const tip = document.getElementById("tip");
  let lit = null;
  const hideTip = () => { tip.classList.remove("on"); if (lit) lit.classList.remove("on"); lit = null; };
  const showTip = (mark) => {
    if (lit === mark) return;
    hideTip();
    lit = mark;
    mark.classList.add("on");
    tip.textContent = mark.dataset.tip;
    const spot = mark.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, spot.left + spot.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const above = spot.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : spot.bottom + 8}px`;
    tip.classList.add("on");
  };
  const visible = (plot) => all("[data-tip]", plot).filter((mark) => mark.getClientRects().length);
  for (const plot of all("svg.plot")) {
    plot.addEventListener("pointermove", (event) => {
      const exact = event.target.closest("[data-tip]");
      if (exact) return showTip(exact);
      let best = null, nearest = 22;
      for (const mark of visible(plot)) {
        const spot = mark.getBoundingClientRect();
        const away = Math.hypot(event.clientX - spot.left - spot.width / 2, event.clientY - spot.top - spot.height / 2);
        if (away < nearest) { nearest = away; best = mark; }
      }
      if (best) showTip(best); else hideTip();
    });
    plot.addEventListener("pointerleave", hideTip);
    plot.addEventListener("blur", hideTip);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") return hideTip();
      const marks = visible(plot);
      if (!step || !marks.length) return;
      event.preventDefault();
      const place = marks.indexOf(lit);
      showTip(marks[place < 0 ? (step > 0 ? 0 : marks.length - 1) : (place + step + marks.length) % marks.length]);
    });
  }
  addEventListener("scroll", hideTip, { passive: true });

  // Which section is being read
  if ("IntersectionObserver" in window) {
    const links = new Map(all("nav.sections a").map((link) => [link.hash.slice(1), link]));
    const watcher = new IntersectionObserver((seen) => {
      for (const one of seen) {
        const link = links.get(one.target.id);
        if (link) link.classList.toggle("here", one.isIntersecting);
      }
    }, { rootMargin: "-80px 0px -65% 0px" });
    for (const part of all(".part")) watcher.observe(part);
  }
  root.dataset.ready = "yes";
})();
