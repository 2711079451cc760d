// What the server can't do: ticking times, staying fresh, keys. Everything else is HTML that works without this.
"use strict";
(() => {
  const root = document.documentElement;
  const base = document.body.dataset.base;
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Times. The server's clock rules: what is due is due by it.

  const ahead = Number(document.body.dataset.now) - Date.now();
  const now = () => Date.now() + ahead;

  function length(ms) {
    if (ms < 1_000) return `${Math.round(ms)} ms`;
    if (ms < 90_000) return `${Math.round(ms / 1_000)} s`;
    if (ms < 5_400_000) return `${Math.round(ms / 60_000)} min`;
    if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
    return `${Math.round(ms / 86_400_000)} days`;
  }

  function relative(at, from) {
    if (Math.abs(at - from) < 1_000) return "now";
    return at > from ? `in ${length(at - from)}` : `${length(from - at)} ago`;
  }

  const clock = new Intl.DateTimeFormat([], { dateStyle: "full", timeStyle: "long" });

  function tick() {
    const at = now();
    for (const time of all("time[data-at]")) {
      const text = relative(Number(time.dataset.at), at);
      if (time.textContent !== text) time.textContent = text;
    }
    for (const dot of all(".strip [data-at]")) dot.setAttribute("cx", place(Number(dot.dataset.at) - at));
  }

  // The whole sentence is made only for the one time that is looked at.
  document.addEventListener("mouseover", (event) => {
    const time = event.target.closest?.("time[data-at]");
    if (time === null || time === undefined || time.dataset.said) return;
    time.dataset.said = "1";
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    time.title = `${clock.format(new Date(Number(time.dataset.at)))} (${zone})\n${time.title}`;
  });

  // The strip: five seconds and a week both have room on it. The same curve as `place` in due.py.
  const WEEK_MS = 604_800_000;
  const place = (ms) => {
    const share = Math.log1p(Math.max(0, ms) / 5_000) / Math.log1p(WEEK_MS / 5_000);
    return `${(2 + 96 * Math.min(1, share)).toFixed(2)}%`;
  };

  // Staying fresh: the server says that something happened, and the page fetches its own live part again.

  const EVERY_MS = 1_000;
  const light = one(".live");
  let asked = 0;
  let waiting = null;

  function is_busy(region) {
    const focus = document.activeElement;
    const typing = focus && region.contains(focus) && focus.matches("input:not([type=checkbox]), textarea, select");
    const selection = getSelection();
    return typing || document.hidden || (selection.type === "Range" && region.contains(selection.anchorNode));
  }

  function freshen() {
    const region = one("#live[hx-get]");
    if (region === null || waiting !== null) return;
    waiting = setTimeout(
      () => {
        waiting = null;
        const found = one("#live[hx-get]");
        if (found === null || is_busy(found)) return;
        asked = Date.now();
        htmx.trigger(found, "fresh");
      },
      Math.max(0, asked + EVERY_MS - Date.now()),
    );
  }

  // A click is press and release on one thing, so nothing is put in its place in between. A release outside of the
  // window is not told of.
  const PRESS_MS = 5_000;
  let pressed = 0;
  addEventListener("pointerdown", () => (pressed = Date.now()), true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => (pressed = 0)), true);

  // What a person has opened, ticked or stands on survives the swap.
  let kept = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "live") return;
    if (Date.now() - pressed < PRESS_MS) {
      event.detail.shouldSwap = false;
      return freshen();
    }
    const region = event.detail.target;
    const focus = document.activeElement;
    kept = {
      open: all("details[open][data-id]", region).map((found) => found.dataset.id),
      ticked: all("input[type=checkbox]:checked", region).map((found) => found.value),
      rows: new Set(all("tr[data-id]", region).map((row) => row.dataset.id)),
      on: one("tr[data-on]", region)?.dataset.href,
      focus: region.contains(focus) ? (focus.getAttribute("href") ?? focus.closest("[data-id]")?.dataset.id) : null,
    };
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    const region = one("#live");
    if (event.detail.target?.id === "found") return choose(0);
    if (region === null || kept === null) return;
    for (const found of all("details[data-id]", region)) if (kept.open.includes(found.dataset.id)) found.open = true;
    for (const box of all("input[type=checkbox]", region)) if (kept.ticked.includes(box.value)) box.checked = true;
    for (const row of all("tr[data-id]", region)) {
      if (kept.rows.size && !kept.rows.has(row.dataset.id)) row.classList.add("new");
      if (kept.on !== undefined && row.dataset.href === kept.on) row.dataset.on = "";
    }
    if (kept.focus) {
      const same = all("a[href], summary", region).find(
        (found) => found.getAttribute("href") === kept.focus || found.parentElement.dataset?.id === kept.focus,
      );
      same?.focus({ preventScroll: true });
    }
    kept = null;
    count_ticked();
    tick();
  });

  function say(state) {
    if (light === null) return;
    light.dataset.is = state;
    const words = { live: "live", polling: "connecting", off: "offline" };
    light.firstElementChild.textContent = words[state];
  }

  // A browser has few connections for one server, so a page that nobody sees gives its own back.
  let source = null;

  function listen() {
    if (light === null || source !== null || document.hidden) return;
    source = new EventSource(`${base}/live`);
    source.onopen = () => say("live");
    source.onerror = () => say(navigator.onLine && source.readyState !== EventSource.CLOSED ? "polling" : "off");
    source.addEventListener("fresh", () => {
      light.classList.remove("beat");
      void light.offsetWidth; // so that the beat begins anew
      light.classList.add("beat");
      freshen();
    });
    source.addEventListener("sample", (event) => {
      document.dispatchEvent(new CustomEvent("wk:sample", { detail: JSON.parse(event.data) }));
    });
    source.addEventListener("gone", hush);
  }

  function hush() {
    source?.close();
    source = null;
    say("off");
  }

  function look() {
    if (document.hidden) return hush();
    listen();
    freshen();
  }
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", hush);
  addEventListener("pageshow", (event) => event.persisted && look());

  // Theme.

  const is_dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

  function turn() {
    root.dataset.theme = is_dark() ? "light" : "dark";
    try {
      localStorage.setItem("wakeful-theme", root.dataset.theme);
    } catch {
      // Then it lasts as long as the page does.
    }
    shown();
  }

  function shown() {
    const button = one(".theme");
    if (button) button.setAttribute("aria-label", is_dark() ? "Use the light theme" : "Use the dark theme");
    document.dispatchEvent(new Event("wk:theme"));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shown);

  // Search.

  const box = one("#find");
  const found = one("#found");

  function choose(number) {
    const links = all("a", found);
    links.forEach((link, index) => link.setAttribute("aria-selected", String(index === number)));
    links[number]?.scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-expanded", String(links.length > 0));
    if (links[number]) box.setAttribute("aria-activedescendant", links[number].id);
    else box.removeAttribute("aria-activedescendant");
  }

  function clear() {
    found.replaceChildren();
    choose(-1);
  }

  box?.addEventListener("keydown", (event) => {
    const links = all("a", found);
    const at = links.findIndex((link) => link.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose((at + (event.key === "ArrowDown" ? 1 : links.length - 1) + links.length) % Math.max(1, links.length));
    } else if (event.key === "Enter" && links[at]) {
      event.preventDefault();
      location.assign(links[at].href);
    } else if (event.key === "Escape") {
      box.value = "";
      clear();
      box.blur();
    }
  });
  box?.addEventListener("input", () => box.value.trim() || clear());
  document.addEventListener("click", (event) => {
    if (box && !event.target.closest(".find")) clear();
    for (const act of all("details.act[open]")) if (!act.contains(event.target)) act.open = false;
  });

  // Keys.

  const GOES = { d: "nav-due", o: "nav-objects", s: "nav-schedules", j: "nav-jobs", p: "nav-parked", n: "nav-nodes" };
  let is_going = false;

  function move(step) {
    const rows = all("tr[data-href]");
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.dataset.on !== undefined);
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
    if (at >= 0) delete rows[at].dataset.on;
    next.dataset.on = "";
    next.scrollIntoView({ block: "nearest" });
  }

  const KEYS = {
    "/": () => box?.focus(),
    "?": () => one("#keys").showModal(),
    j: () => move(1),
    ArrowDown: () => move(1),
    k: () => move(-1),
    ArrowUp: () => move(-1),
    t: turn,
    x: () => one("tr[data-on] input[type=checkbox]")?.click(),
    Enter: () => {
      const row = one("tr[data-on]");
      if (row) location.assign(row.dataset.href);
    },
    Escape: () => {
      for (const act of all("details.act[open]")) act.open = false;
      delete one("tr[data-on]")?.dataset.on;
    },
  };

  document.addEventListener("keydown", (event) => {
    const focus = document.activeElement;
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (event.key === "Escape" && focus.closest("details.act")) return void (focus.closest("details.act").open = false);
    if (focus.matches("input:not([type=checkbox]), textarea, select")) return;
    if (event.key === "Enter" && focus.matches("a, button, summary, input")) return;
    if (is_going) {
      is_going = false;
      const link = one(`#${GOES[event.key]}`);
      if (link) return link.click();
    }
    if (event.key === "g") {
      is_going = true;
      return;
    }
    const act = KEYS[event.key];
    if (act === undefined) return;
    if (event.key.startsWith("Arrow") && !one("tr[data-href]")) return;
    if (event.key !== "Enter" || one("tr[data-on]")) event.preventDefault();
    act();
  });

  // Ticking several.

  function count_ticked() {
    const form = one("form[data-bulk]");
    if (form === null) return;
    const boxes = all("input[name=number]");
    const count = boxes.filter((found) => found.checked).length;
    for (const place of all("[data-count]", form)) place.textContent = String(count);
    for (const button of all("[data-needs]", form)) button.disabled = count === 0;
    const whole = one("#all-rows");
    if (whole) {
      whole.checked = count > 0 && count === boxes.length;
      whole.indeterminate = count > 0 && count < boxes.length;
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.id === "all-rows") for (const found of all("input[name=number]")) found.checked = event.target.checked;
    if (event.target.matches("select[data-go]")) event.target.form.requestSubmit();
    count_ticked();
  });

  one(".theme")?.addEventListener("click", turn);
  one(".help")?.addEventListener("click", KEYS["?"]);
  one(".pages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  tick();
  shown();
  count_ticked();
  listen();
  setInterval(tick, 1_000);
  // Events say when something happened; this shows what merely passed.
  setInterval(look, 15_000);
})();
