// Throughput and lateness of the last minutes, drawn by uPlot; fed by the samples of the live stream.
"use strict";
(() => {
  const figures = [...document.querySelectorAll("[data-chart]")];
  if (!figures.length) return;
  const base = document.body.dataset.base;
  const KEPT = 600;
  const SHOWN_S = 600;
  const SMOOTH = 5; // samples, ten seconds: what fires every four seconds is a line and no comb
  const POWERS = [1, 100, 10_000, 1_000_000, 100_000_000];
  // One column for each: time in seconds, then what is drawn.
  const raw = { t: [], fired: [], turns: [], failed: [], p50: [], p99: [] };
  const rows = { t: [], fired: [], turns: [], failed: [], p50: [], p99: [] };
  const plots = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const KINDS = {
    throughput: { series: [["fired", "--accent", true], ["turns", "--calm", false], ["failed", "--bad", false]], unit: "/s" },
    lateness: { series: [["p99", "--warn", true], ["p50", "--accent", false]], unit: "ms" },
  };

  // A second and more, as short as an axis has room for.
  function long(ms) {
    const [size, name] = ms < 120_000 ? [1_000, "s"] : ms < 7_200_000 ? [60_000, "min"] : [3_600_000, "h"];
    const count = ms / size;
    return `${count < 10 && count % 1 ? count.toFixed(1) : Math.round(count).toLocaleString("en")} ${name}`;
  }

  function words(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "ms" && value >= 1_000) return long(value);
    const text = value >= 100 ? Math.round(value).toLocaleString("en") : value >= 10 ? value.toFixed(0) : value.toFixed(1);
    return unit === "ms" ? `${text} ms` : `${text}/s`;
  }

  const minutes = (seconds) => (seconds > -30 ? "now" : `${Math.round(seconds / 60)} min`);

  function draw() {
    while (plots.length) plots.pop().destroy();
    for (const figure of figures) {
      const kind = KINDS[figure.dataset.chart];
      const place = figure.querySelector(".plot");
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const options = {
        width: place.clientWidth,
        height: 96,
        legend: { show: false },
        cursor: { y: false, points: { size: 5 } },
        padding: [6, 14, 0, 0],
        scales: {
          x: { range: () => [rows.t[rows.t.length - 1] - SHOWN_S, rows.t[rows.t.length - 1]] },
          // Lateness goes from one millisecond to hours: only powers of ten show both.
          y: kind.unit === "ms" ? { distr: 3, log: 10, range: (plot, low, high) => [1, Math.max(100, 100 ** Math.ceil(Math.log10(high) / 2))] } : { range: (plot, low, high) => [0, Math.max(1, high * 1.15)] },
        },
        axes: [
          { ...axis, size: 22, splits: (plot, at, low, high) => [8, 6, 4, 2, 0].map((ago) => high - ago * 60), values: (plot, ticks) => ticks.map((at) => minutes(at - rows.t[rows.t.length - 1])) },
          { ...axis, size: 46, space: 26, gap: 4, ...(kind.unit === "ms" ? { splits: (plot, at, low, high) => POWERS.filter((value) => value >= low && value <= high), filter: (plot, ticks) => ticks } : {}), values: (plot, ticks) => ticks.map((value) => (kind.unit !== "ms" ? `${value}` : value >= 1_000 ? long(value) : `${value} ms`)) },
        ],
        series: [{}, ...kind.series.map(([name, token, is_filled]) => ({ label: name, stroke: colour(token), width: 1.5, points: { show: false }, spanGaps: false, fill: is_filled ? `${colour(token)}1f` : undefined }))],
        hooks: { setCursor: [(plot) => said(figure, kind, plot.cursor.idx)] },
      };
      plots.push(new uPlot(options, data(kind), place));
      said(figure, kind, null);
    }
  }

  const data = (kind) => [rows.t, ...kind.series.map(([name]) => rows[name])];

  function said(figure, kind, index) {
    const at = index ?? rows.t.length - 1;
    for (const [name] of kind.series) {
      const place = figure.querySelector(`[data-value="${name}"]`);
      if (place) place.textContent = words(rows[name][at], kind.unit);
    }
  }

  function add(sample) {
    if (raw.t.length && sample.t <= raw.t[raw.t.length - 1]) return;
    for (const name of Object.keys(raw)) {
      raw[name].push(sample[name] ?? null);
      rows[name].push(smooth(name));
      if (raw[name].length > KEPT) raw[name].shift();
      if (rows[name].length > KEPT) rows[name].shift();
    }
  }

  // The last ten seconds as one number: rates as their mean, lateness as its worst.
  function smooth(name) {
    if (name === "t") return raw.t[raw.t.length - 1];
    const last = raw[name].slice(-SMOOTH).filter((value) => value !== null);
    if (!last.length) return null;
    if (name.startsWith("p")) return Math.max(1, ...last);
    return last.reduce((sum, value) => sum + value, 0) / last.length;
  }

  document.addEventListener("wk:sample", (event) => {
    add(event.detail);
    figures.forEach((figure, number) => {
      const kind = KINDS[figure.dataset.chart];
      plots[number]?.setData(data(kind));
      said(figure, kind, plots[number]?.cursor.idx ?? null);
    });
  });
  document.addEventListener("wk:theme", draw);
  new ResizeObserver(() => plots.forEach((plot, number) => plot.setSize({ width: figures[number].querySelector(".plot").clientWidth, height: 96 }))).observe(figures[0]);
  // What was missed while nobody saw the page is asked for.
  function load() {
    if (document.hidden) return;
    fetch(`${base}/history`, { headers: { accept: "application/json" } })
      .then((answer) => (answer.ok ? answer.json() : []))
      .then((samples) => {
        samples.forEach(add);
        draw();
      });
  }
  document.addEventListener("visibilitychange", load);
  load();
})();
