// Live updates. The server pushes the parts of the page that change, as it made them for the page
// itself; here only what differs is put in its place, so that focus and selection stay.
"use strict";

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const dark = matchMedia("(prefers-color-scheme: dark)");

function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const alike = old.nodeName === fresh.nodeName && old.childNodes.length === fresh.childNodes.length;
  if (!alike || old.nodeType !== Node.ELEMENT_NODE) {
    old.replaceWith(fresh);
    return;
  }
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  before.forEach((node, k) => patch(node, after[k]));
}

function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = main.querySelector(`[data-part="${part.dataset.part}"]`);
    if (old) patch(old, document.adoptNode(part));
  }
  tellTimes();
  filterAll();
}

// Each field hides the rows of its table in which a word of it is missing.
const filters = [...document.querySelectorAll("[data-filters]")];
function filterAll() {
  for (const field of filters) {
    const words = field.value.toLowerCase().split(/\s+/);
    const rows = main.querySelectorAll(`[data-part="${field.dataset.filters}"] tbody tr`);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  }
}
for (const field of filters) {
  field.closest(".filter").hidden = false;
  field.addEventListener("input", filterAll);
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
}

function tell(words) {
  trouble.textContent = words;
  trouble.hidden = !words;
}

function ago(seconds) {
  if (seconds < 2) return "now";
  if (seconds < 120) return `${Math.round(seconds)} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}

function tellTimes() {
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    time.textContent = ago((Date.now() - at) / 1000);
    time.title = at.toLocaleString();
  }
}

// Curves: fetched when the number of entries changes, at most once a second.
let drawing = null;
let shown = "";

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function trace(curve, y) {
  const ink = curve.marked ? curve[dark.matches ? "dark" : "light"] : colour("rule");
  const few = curve.rounds.length < 2 ? "markers" : "lines";
  return { x: curve.rounds, y: curve[y], name: curve.agent, mode: few, showlegend: curve.marked,
    line: { color: ink, width: curve.marked ? 2 : 1, dash: curve.dash }, marker: { color: ink }, type: "scatter",
    hovertemplate: `%{y}<extra>${curve.agent.replace(/[<>&]/g, "")}</extra>` };
}

// No buttons, and no way to Plotly's cloud.
const CONFIG = { responsive: true, displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };

function layout() {
  const axis = { gridcolor: colour("rule"), zerolinecolor: colour("faint"), linecolor: colour("rule"),
    automargin: true, fixedrange: true };
  return { margin: { l: 8, r: 8, t: 8, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("ink"), size: 12, family: "system-ui, sans-serif" }, hovermode: "closest",
    xaxis: { ...axis, title: { text: "round", standoff: 4 }, rangemode: "tozero", tickformat: "d" }, yaxis: axis,
    legend: { orientation: "h", y: -0.2 } };
}

async function draw() {
  const answer = await fetch(main.dataset.curves, { headers: { Accept: "application/json" } });
  if (!answer.ok || !window.Plotly) return;
  const found = await answer.json();
  const pale = found.curves.filter((c) => !c.marked);
  const all = [...pale, ...found.curves.filter((c) => c.marked)];
  for (const [id, y] of [["value-curve", "value"], ["paid-curve", "paid"]]) {
    const traces = all.map((curve) => trace(curve, y));
    await Plotly.react(id, traces, layout(), CONFIG);
  }
  document.getElementById("value-curve").dataset.rounds = Math.max(0, ...all.map((c) => c.rounds.at(-1)));
}

function drawSoon() {
  const round = document.getElementById("round");
  if (!main.dataset.curves || !round || drawing || shown === round.textContent) return;
  drawing = setTimeout(async () => {
    shown = document.getElementById("round").textContent;
    try { await draw(); } catch { shown = ""; }
    drawing = null;
    drawSoon();
  }, shown ? 1000 : 0);
}

function listen() {
  const events = new EventSource(main.dataset.events);
  events.addEventListener("open", () => tell(""));
  events.addEventListener("parts", (event) => { tell(""); show(JSON.parse(event.data)); drawSoon(); });
  events.addEventListener("problem", (event) => tell(JSON.parse(event.data)));
  events.addEventListener("error", async () => {
    const refused = events.readyState === EventSource.CLOSED;
    const answer = refused && await fetch("/api/runs").catch(() => null);
    if (answer && answer.status === 401) return location.assign("/login");
    tell(answer && answer.status === 503 ? (await answer.json()).detail
      : "The connection is lost; this page tries again by itself.");
    if (refused) setTimeout(listen, 3000);
  });
}

drawSoon();
if (main.dataset.events) {
  tellTimes();
  setInterval(tellTimes, 1000);
  listen();
}
dark.addEventListener("change", () => { shown = ""; drawSoon(); });
