"use strict";
// Draws the figures of the page: those in view first, the others when there is time, all for print.
// Whatever changes (agents shown, light or dark, paper), a figure is drawn again from its data.

const figures = JSON.parse(document.getElementById("data").textContent);
const plots = [...document.querySelectorAll(".plot")];
const boxes = [...document.querySelectorAll(".controls input[type=checkbox]")];
const focus = document.getElementById("focus");
const root = document.documentElement;
const stale = new Set(plots);
const PAPER = 680, LOW = 310, NARROW = 420; // pixels: two figures go on a page, one on a phone
// The buttons are listed, not left to Plotly: version 7 added one that uploads a figure to its cloud.
const CONFIG = {
  responsive: true,
  displaylogo: false,
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  showSendToCloud: false,
  plotlyServerURL: "",
  toImageButtonOptions: { format: "svg" },
};
let printing = false;

// Figures name their colours as the style sheet does; the style sheet knows light from dark.
function coloured(node, style) {
  if (Array.isArray(node)) return node.map((part) => coloured(part, style));
  if (node === null || typeof node !== "object" || "bdata" in node) return node;
  const entries = Object.entries(node).map(([key, value]) => {
    const named = /color$/.test(key) && /^var\((--[\w-]+)\)$/.exec(value);
    return [key, named ? style.getPropertyValue(named[1]).trim() : coloured(value, style)];
  });
  return Object.fromEntries(entries);
}

const hidden = () => new Set(boxes.filter((box) => !box.checked).map((box) => box.value));

// A trace of one agent is hidden or fades as a whole, one of many agents point by point.
function dress(trace, away) {
  const { agent, agents = [] } = trace.meta ?? {};
  const owner = agent ?? (agents.length === 1 ? agents[0] : undefined);
  const shade = (name) => (away.has(name) ? 0 : focus.value && focus.value !== name ? 0.15 : 1);
  if (owner === undefined) {
    if (agents.length) trace.marker.opacity = agents.map(shade);
    return;
  }
  if (away.has(owner)) trace.visible = false;
  else if (focus.value === owner) emphasise(trace);
  else if (focus.value) trace.opacity = 0.15;
}

function emphasise(trace) {
  Object.assign(trace, { opacity: 1, zorder: 1 });
  if (trace.line) trace.line.width = 3.5;
  else trace.marker.size = 14;
}

// In a map the row of the agent in focus is framed.
function frame(trace, layout, colour) {
  const row = (trace.meta?.rows ?? []).indexOf(focus.value);
  if (row < 0) return;
  const where = { xref: "paper", x0: 0, x1: 1, y0: row - 0.5, y1: row + 0.5 };
  (layout.shapes ??= []).push({ type: "rect", line: { color: colour, width: 3 }, ...where });
}

// The names of curves stand at their ends, where they leave two thirds of the width to the curves;
// elsewhere, as on a phone, the legends tell curves apart.
function label(plot, data, layout, ink) {
  const ends = data.filter((trace) => trace.meta?.place !== undefined && trace.visible !== false);
  const width = layout.width ?? plot.clientWidth;
  const { l, t, b } = layout.margin, room = layout.meta?.room;
  const labelled = ends.length > 0 && width > NARROW && room < width / 3;
  plot.closest("figure").classList.toggle("labelled", labelled);
  if (!labelled) return;
  layout.margin.r = room;
  const [across, up] = [width - l - room, layout.height - t - b];
  const [[left, right], [low, high]] = [layout.xaxis.range, layout.yaxis.range];
  (layout.annotations ??= []).push(...ends.map(({ name, line, opacity, meta: { end, place } }) => ({
    text: name, font: { size: 11, color: ink }, opacity: Math.max(opacity ?? 1, 0.4),
    x: left + end[0] * (right - left), y: low + end[1] * (high - low), xanchor: "left",
    ax: (1 - end[0]) * across + 14, ay: (end[1] - place) * up,
    showarrow: true, arrowhead: 0, arrowwidth: 1.2, arrowcolor: line.color, borderpad: 0,
  })));
}

function paint(plot) {
  stale.delete(plot);
  const style = getComputedStyle(root);
  const { data, layout } = coloured(figures[plot.id], style);
  const away = hidden();
  for (const trace of data) {
    dress(trace, away);
    frame(trace, layout, style.getPropertyValue("--ink").trim());
  }
  if (printing) {
    const height = layout.yaxis.tickvals ? layout.height : Math.min(layout.height, LOW);
    Object.assign(layout, { width: PAPER, height, autosize: false });
  }
  label(plot, data, layout, style.getPropertyValue("--ink").trim());
  plot.style.height = `${layout.height}px`;
  layout.uirevision = "kept"; // what a reader zoomed into stays
  Plotly.react(plot, data, layout, CONFIG).then(() => (plot.dataset.drawn = "yes"));
}

const visible = (plot) => !plot.closest("details.run:not([open])");

const observer = new IntersectionObserver(
  (seen) => {
    for (const { isIntersecting, target } of seen) {
      if (isIntersecting && stale.has(target) && visible(target)) paint(target);
    }
  },
  { rootMargin: "300px" },
);

const later = window.requestIdleCallback ?? ((work) => setTimeout(work, 1));
let waiting = false;
function paintRest() {
  const next = [...stale].find(visible);
  waiting = next !== undefined;
  if (!waiting) return;
  later(() => {
    if (stale.has(next) && visible(next)) paint(next);
    paintRest();
  }, { timeout: 100 });
}

function repaint() {
  document.getElementById("shown").textContent = boxes.filter((box) => box.checked).length;
  for (const plot of plots) {
    stale.add(plot);
    observer.unobserve(plot); // observing anew reports at once what is in view
    observer.observe(plot);
  }
  if (!waiting) paintRest();
}

// Paper shows everything: all sections open, all figures drawn, in the colours of paper.
let closed = [];
function toPaper() {
  if (printing) return;
  printing = true;
  root.dataset.print = "yes";
  closed = [...document.querySelectorAll("details.run:not([open])")];
  for (const section of closed) section.open = true;
  plots.forEach(paint);
}

function toScreen() {
  if (!printing) return;
  printing = false;
  delete root.dataset.print;
  for (const section of closed) section.open = false;
  repaint();
}

window.addEventListener("beforeprint", toPaper);
window.addEventListener("afterprint", toScreen);
matchMedia("print").addEventListener("change", (event) => (event.matches ? toPaper() : toScreen()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
let width = window.innerWidth; // a phone's browser changes the height alone while it scrolls
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  repaint();
});
focus.addEventListener("change", repaint);
for (const box of boxes) box.addEventListener("change", repaint);
for (const [id, checked] of [["all", true], ["none", false]]) {
  document.getElementById(id).addEventListener("click", () => {
    for (const box of boxes) box.checked = checked;
    repaint();
  });
}
for (const section of document.querySelectorAll("details.run")) {
  section.addEventListener("toggle", () => waiting || paintRest());
}
// Tables of agents and runs: a bar under each number, and rows in the order of a column.
const figure = (cell) => parseFloat(cell.textContent); // NaN for words, and for a number not known
function sort(table, column, down) {
  const key = (row) => row.cells[column];
  const order = (a, b) => {
    const [x, y] = [figure(key(a)), figure(key(b))];
    if (Number.isNaN(x) || Number.isNaN(y)) {
      const words = key(a).textContent.localeCompare(key(b).textContent);
      return Number.isNaN(x) - Number.isNaN(y) || (down ? -words : words);
    }
    return down ? y - x : x - y;
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
}
for (const table of document.querySelectorAll(".sortable table")) {
  const rows = [...table.tBodies[0].rows];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const cells = rows.map((row) => row.cells[column]).filter((cell) => !Number.isNaN(figure(cell)));
    const most = Math.max(...cells.map((cell) => Math.abs(figure(cell))));
    for (const cell of most > 0 ? cells : []) {
      cell.style.setProperty("--bar", `${(100 * Math.abs(figure(cell))) / most}%`);
      cell.classList.toggle("minus", figure(cell) < 0);
    }
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table, column, down);
    });
  });
}
// Files to download are in the page, compressed; a browser that cannot unpack shows no buttons.
async function save(name) {
  const packed = JSON.parse(document.getElementById("files").textContent)[name];
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await new Response(stream).blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
for (const line of "DecompressionStream" in window ? document.querySelectorAll(".downloads") : []) {
  line.hidden = false;
  for (const button of line.querySelectorAll("button")) {
    button.addEventListener("click", () => save(button.dataset.file));
  }
}
// A link of the contents opens the section that it leads to.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const section = target?.closest("details.run");
  if (section) section.open = true;
}
window.addEventListener("hashchange", openTarget);
openTarget();
repaint();
