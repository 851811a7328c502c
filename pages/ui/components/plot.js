// Draws a figure with Plotly.react into a node that survives every update, with its zoom and hover. Colours such as "$ink" come
// from the current theme.

import { onMessage } from "./channel.js";
import { overUndecided } from "./colours.js";
import { linkCursor } from "./cursor.js";
import { download, renderBoth } from "./figure_files.js";
import { loadPlotly } from "./plotly.js";
import { clearStates } from "./states_canvas.js";

const SOFT = /^#[0-9a-f]{8}$/; // colours of soft states
const TOUCH = matchMedia("(pointer: coarse)");

// Draws one figure at a time, the page's picture first, and shows each when it is ready.
const queue = [];

function drawInTurn({ root }, draw) {
  return new Promise((done, fail) => {
    const isPicture = root.closest("[class*=st-key-gdm-panel-picture]") !== null;
    queue.push({ root, isPicture, draw: () => draw().then(done, fail) });
    if (queue.length === 1) setTimeout(drawNext);
  });
}

const isAbove = (one, other) => one.root.compareDocumentPosition(other.root) & Node.DOCUMENT_POSITION_FOLLOWING;

async function drawNext() {
  const [next] = queue.sort((a, b) => b.isPicture - a.isPicture || (isAbove(a, b) ? -1 : 1));
  await next.draw();
  queue.splice(queue.indexOf(next), 1);
  if (queue.length) setTimeout(drawNext); // lets the browser show the figure
}

// A toolbar is one stop of the Tab key; arrows move within it.
function oneStop(plot) {
  const buttons = [...plot.querySelectorAll(".modebar-btn")];
  buttons.forEach((button, i) => {
    button.tabIndex = i ? -1 : 0;
    button.onkeydown = (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      buttons[(to + buttons.length) % buttons.length].focus();
    };
  });
}

let themed = { at: -1000, dark: false };

// Cached for all figures of an update: reading a computed style forces a layout.
function isDark() {
  const app = document.querySelector(".stApp"), at = performance.now();
  if (at - themed.at > 50) themed = { at, dark: getComputedStyle(app).colorScheme === "dark" };
  return themed.dark;
}

// A figure drawn while the theme changes may have the old one: draw again when the app's class has changed.
function mindTheme(view) {
  const seen = new MutationObserver(() => {
    themed.at = -1000;
    const { tokens } = view.given.data;
    if (view.picture !== tokens[isDark() ? "dark" : "light"]) show(view, view.given);
  });
  seen.observe(document.querySelector(".stApp"), { attributes: true, attributeFilter: ["class"] });
  return seen;
}

// Return a copy with theme colours; arrays are typed (base64) or short.
function withColours(value, tokens) {
  if (typeof value === "string") {
    if (SOFT.test(value)) return overUndecided(value, tokens);
    return value[0] === "$" ? (tokens[value.slice(1)] ?? value) : value;
  }
  if (Array.isArray(value)) return value.length > 200 ? value : value.map((item) => withColours(item, tokens));
  if (value === null || typeof value !== "object" || "bdata" in value || ArrayBuffer.isView(value)) return value;
  const copy = {};
  for (const name in value) copy[name] = withColours(value[name], tokens);
  return copy;
}

function build(parent) {
  const root = document.createElement("figure");
  root.className = "gdm-figure";
  root.innerHTML = `<div class="gdm-plot"></div><div class="gdm-cursor" hidden></div>
    <div class="gdm-badge" hidden></div><figcaption></figcaption><p class="gdm-sr"></p>
    <div class="gdm-message" hidden><strong></strong><span></span></div>`;
  parent.replaceChildren(root);
  const [plot, cursor, badge, caption, alt, message] = root.children;
  return { root, plot, cursor, badge, caption, alt, message, updates: 0 };
}

async function save({ data, layout, gdm }, format, filename) {
  const [svg, png] = await renderBoth({ data, layout, height: layout.height, refit: gdm.refit }, gdm.tokens.surface);
  download(await (format === "png" ? png : svg), `${filename}.${format}`);
}

function configuration(view, options) {
  const button = (name, icon, click) => ({ name, title: name, icon, click });
  const icons = view.Plotly.Icons;
  return {
    displaylogo: false,
    scrollZoom: false,
    doubleClick: "reset",
    responsive: false,
    displayModeBar: TOUCH.matches ? false : "hover", // no hover on touch screens; pages offer exports
    modeBarButtons: [
      [
        button("Save as PNG", icons.camera, () => save(view.plot, "png", options.filename)),
        button("Save as SVG", icons.disk, () => save(view.plot, "svg", options.filename)),
      ],
      ["zoom2d", "pan2d", "resetScale2d"],
    ],
  };
}

// Return the widest layout of a figure that fits.
function fitting(figure, width) {
  return figure.widths?.findLast(({ least }) => width >= least);
}

function layoutAt(width, figure, options, tokens) {
  const fit = fitting(figure, width);
  const layout = withColours({ ...figure.layout, ...fit?.layout }, tokens);
  layout.height = fit?.height ?? options.height;
  layout.width = width;
  layout.uirevision = options.revision;
  // On touch screens dragging scrolls the page.
  if (TOUCH.matches) layout.dragmode = false;
  return layout;
}

function listen(view) {
  const { plot } = view;
  plot.on("plotly_click", ({ points }) => {
    const [{ x = null, y = null, customdata }] = points;
    if (view.options.clicks) view.send("click", { x, y, customdata: customdata && Array.from(Object.values(customdata)) });
  });
  plot.on("plotly_afterplot", () => view.waits?.());
  view.unlink = linkCursor(view);
}

async function draw(view, figure, options, tokens) {
  const { plot } = view;
  const coloured = withColours(figure.data, tokens);
  view.width ??= plot.clientWidth;
  const layout = layoutAt(view.width, figure, options, tokens);
  // What a picture of another width has to change: nothing where the figure says nothing of widths, its height alone
  // where the same layout fits.
  const refit = (width) => {
    const fit = fitting(figure, width);
    return fit && (fit === fitting(figure, view.width) ? { height: fit.height } : layoutAt(width, figure, options, tokens));
  };
  plot.gdm = { tokens, refit, save: (...how) => save(plot, ...how) };
  // Said once: Plotly compares a configuration with the last one at every update, which takes it 6 ms.
  await view.Plotly.react(plot, coloured, layout, view.updates ? undefined : configuration(view, options));
  oneStop(plot);
  if (view.updates) return;
  plot.style.minHeight = "";
  listen(view);
  follow(view);
}

// ---- the component --------------------------------------------------------------------------------------------
export default function (given) {
  const { data, parentElement } = given;
  const view = (parentElement.gdmView ??= build(parentElement));
  // Streamlit calls again with the same data, as at a change of theme; the channel may have brought newer ones.
  if (data !== view.scripted) show(view, given);
  view.scripted = data;
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

export function show(view, given) {
  const { data: { figure, options, tokens }, parentElement, setTriggerValue } = given;
  view.given = given;
  view.unsubscribe ??= onMessage(options.key, (part) => show(view, { ...view.given, data: { ...view.given.data, ...part } }), () => view.job);
  if (view.waits) return; // slider_preview.js draws over the figure, and draws this one at its end
  if (!showsFigure(view, figure, options)) return;
  Object.assign(view, { figure, options, group: options.group, send: setTriggerValue });
  const { root, plot, badge, caption, alt } = view;
  const picture = (view.picture = tokens[isDark() ? "dark" : "light"]);
  view.theme ??= mindTheme(view);

  root.setAttribute("aria-label", figure.alt);
  root.dataset.state = options.state;
  root.toggleAttribute("data-still", options.still);
  alt.textContent = figure.alt;
  caption.textContent = figure.caption;
  caption.hidden = !figure.caption;
  badge.hidden = !options.badge;
  badge.textContent = options.badge;
  if (!view.updates) plot.style.minHeight = `${fitting(figure, plot.clientWidth)?.height ?? options.height}px`;

  view.job = loadPlotly(figure.data)
    .then((Plotly) => drawInTurn(view, async () => {
      if (!plot.isConnected || view.figure !== figure) return; // a newer figure came while loading
      const began = performance.now();
      // An earlier result that is marked as such, or has become the result, is the same drawing.
      const look = JSON.stringify([figure.data, figure.layout, figure.widths, options.height, options.revision, picture]);
      const known = look === view.look;
      view.look = look; // before drawing, during which a newer figure may come
      view.Plotly = Plotly;
      if (!known) await draw(view, figure, options, picture);
      if (!view.waits) clearStates(view);
      view.updates += 1;
      root.dataset.updateMs = (performance.now() - began).toFixed(1);
      root.dataset.updates = view.updates;
    }))
    .catch((error) => {
      view.look = null;
      badge.hidden = false;
      badge.textContent = `${error?.message ?? "The figure could not be drawn."} Reload the page to try again.`;
    });
}

// Show the figure or a message in its place; return whether there is a figure.
function showsFigure({ root, plot, badge, caption, cursor, message }, figure, options) {
  const [title, note] = message.children;
  message.hidden = figure !== null;
  for (const part of [plot, caption]) part.hidden = figure === null;
  if (figure !== null) return true;
  for (const part of [badge, cursor]) part.hidden = true;
  title.textContent = options.empty.title;
  note.textContent = options.empty.note;
  message.style.minHeight = options.height ? `${options.height}px` : ""; // keeps the place of elements below
  root.setAttribute("aria-label", `${options.empty.title} ${options.empty.note}`);
  root.dataset.state = options.state;
  return false;
}

function tearDown(view, parentElement) {
  if (parentElement.gdmView !== view) return;
  view.unsubscribe?.();
  view.resize?.disconnect();
  view.theme?.disconnect();
  view.unlink?.();
  view.Plotly?.purge(view.plot);
  delete parentElement.gdmView;
}

function follow(view) {
  const { plot } = view;
  view.resize = new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (!width || width === view.width) return;
    const same = fitting(view.figure, width) === fitting(view.figure, view.width);
    view.width = width;
    requestAnimationFrame(() => {
      if (!plot.isConnected) return;
      if (same) view.Plotly.relayout(plot, { width });
      else draw(view, view.figure, view.options, plot.gdm.tokens);
    });
  });
  view.resize.observe(plot);
}
