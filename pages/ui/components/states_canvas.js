// Draws soft states on a canvas over a Plotly figure, ten times as fast as Plotly would, until its next picture is there.
// pages/lab/preview_figures.py describes how each figure is drawn.

import { axesOf } from "./axes.js";
import { averaged, decode, overUndecided, quantise } from "./colours.js";

const STROKE = /^#[0-9a-f]{8}$/; // the colour of a piece of the path; other shapes of a track have plain ones
const FADED = 0.2;
const KINDS = { track, strips, areas, places };

// Draw over `view`, a figure of plot.js, as described by `how`; `soft(part)` returns { states, mixing, stride }; `words` are shown
// in the corner. Return false if the figure cannot be drawn over.
export function drawStates(view, how, soft, colours, words = "") {
  const { plot, root, badge, figure } = view;
  const frame = axesOf(plot);
  if (!frame) return false; // not drawn yet
  if (view.over && view.over.figure !== figure) clearStates(view);
  view.over ??= { figure, canvas: document.createElement("canvas"), before: new Map() };
  const on = { ...view.over, plot, frame, pen: paper(plot, view.over.canvas, frame) };
  if (!KINDS[how.kind](on, how, soft, colours)) {
    clearStates(view);
    return false;
  }
  for (const mark of plot.querySelectorAll(".infolayer > .annotation")) {
    if (how.fades?.includes(plot.layout.annotations[mark.dataset.index]?.name)) restyle(on, mark, "opacity", FADED);
  }
  const { stride } = soft(how.part ?? Object.values(how.rows)[0]);
  Object.assign(badge, { hidden: !words, textContent: words + (stride > 1 ? `, 1 of ${stride} samples` : "") });
  root.toggleAttribute("data-followed", true);
  root.dataset.updates = view.updates += 1;
  return true;
}

// Show Plotly's marks again.
export function clearStates(view) {
  for (const [node, [name, value]] of view.over?.before ?? []) node.style[name] = value;
  view.over?.canvas.remove();
  view.root.toggleAttribute("data-followed", false);
  view.over = null;
}

function restyle({ before }, node, name, value) {
  if (!node) return;
  if (!before.has(node)) before.set(node, [name, node.style[name]]);
  node.style[name] = value;
}

// Return a clean canvas as large as the figure, below its text and clipped to the axes.
function paper(plot, canvas, { x, y }) {
  const { width, height } = plot.layout;
  const words = plot.querySelectorAll(".svg-container > .main-svg")[1];
  if (canvas.nextSibling !== words) words.before(canvas);
  const scale = devicePixelRatio;
  Object.assign(canvas, { className: "gdm-states", width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.style.cssText = `position:absolute;left:0;top:0;width:${width}px;height:${height}px;pointer-events:none`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.miterLimit = 4; // as in SVG
  pen.beginPath();
  pen.rect(x.start, y.start, x.length, y.length);
  pen.clip();
  return pen;
}

function fill(pen, colour, opacity, ...box) {
  Object.assign(pen, { fillStyle: colour, globalAlpha: opacity });
  pen.fillRect(...box);
}

function coloured({ gdm }, states, mixing, limit) {
  const { index, css } = quantise(states, mixing, limit);
  return { index, css: css.map((colour) => overUndecided(colour, gdm.tokens)) };
}

// ---- a track, as figures/track.py draws it --------------------------------------------------------------------
function track(on, { part }, soft) {
  const { plot, figure } = on;
  const { states, mixing, stride } = soft(part);
  const isStroke = ({ line }) => STROKE.test(line?.color);
  const shapes = figure.layout.shapes ?? [];
  const stroke = shapes.find(isStroke);
  const [x, y] = everyOf(figure, figure.data[0], stride);
  if (!stroke || x.length * mixing.lab.length !== states.length) return false;
  for (const group of plot.querySelectorAll(".shapelayer .shape-group")) {
    if (isStroke(shapes[group.dataset.index] ?? {})) restyle(on, group, "display", "none");
  }
  line(on, coloured(plot, states, mixing, 40), x, y, stroke.line.width);
  return true;
}

// Return the coordinates of one in `stride` samples, which `memory` keeps.
const everyOf = (memory, { x, y }, stride) =>
  ((memory.at ??= {})[stride] ??= [x, y].map((axis) => decode(axis).filter((_, i) => i % stride === 0)));

// A path in pieces, each in its colour: one stroke for all of a colour.
function line({ pen, frame }, { index, css }, x, y, wide) {
  const paths = css.map(() => new Path2D());
  const at = (i) => [frame.x.at(x[i]), frame.y.at(y[i])];
  const known = (i) => Number.isFinite(x[i]) && Number.isFinite(y[i]);
  let before = -1; // the colour of the piece that ends here
  for (let i = 0; i < x.length - 1; i++) {
    const bucket = known(i) && known(i + 1) ? index[i] : -1;
    if (bucket >= 0) {
      if (bucket !== before) paths[bucket].moveTo(...at(i));
      paths[bucket].lineTo(...at(i + 1));
    }
    before = bucket;
  }
  paths.forEach((path, i) => {
    Object.assign(pen, { strokeStyle: css[i], lineWidth: wide });
    pen.stroke(path);
  });
}

// ---- samples on a map -----------------------------------------------------------------
function places(on, how, soft) {
  const { pen, frame, plot, figure } = on;
  for (const layer of [".gl-container", ".cartesianlayer .scatterlayer"]) {
    restyle(on, plot.querySelector(layer), "visibility", "hidden");
  }
  const { states, mixing, stride } = soft(how.part);
  const [ground] = figure.data;
  figure.ground ??= [decode(ground.x), decode(ground.y)];
  line(on, { index: new Uint8Array(figure.ground[0].length), css: [plot.gdm.tokens.grid] }, ...figure.ground, ground.line.width);
  const [x, y] = everyOf(how, how, stride);
  const found = coloured(plot, states, mixing, 40);
  if (how.line) line(on, found, x, y, how.line);
  else dots(pen, found, (i) => [frame.x.at(x[i]), frame.y.at(y[i])], how.dot / 2);
  return true;
}

function dots(pen, { index, css }, at, radius) {
  const those = css.map(() => new Path2D());
  for (let i = 0; i < index.length; i++) {
    const [x, y] = at(i);
    if (Number.isNaN(x + y)) continue;
    those[index[i]].moveTo(x + radius, y);
    those[index[i]].arc(x, y, radius, 0, 2 * Math.PI);
  }
  those.forEach((path, i) => {
    pen.fillStyle = css[i];
    pen.fill(path);
  });
}

// ---- stacked shares, as figures/states.py draws them -------------------------------------------------------------
function areas({ pen, frame, plot, figure }, { part }, soft, colours) {
  const { states, mixing } = soft(part);
  const k = mixing.lab.length;
  const x = (figure.moments ??= decode(figure.data[0].x));
  const cells = averaged(states, k, Math.ceil(states.length / k / x.length));
  fill(pen, plot.gdm.tokens.surface, 1, frame.x.start, frame.y.start, frame.x.length, frame.y.length);
  const base = new Float32Array(x.length);
  const edge = (i) => pen.lineTo(frame.x.at(x[i]), frame.y.at(base[i]));
  for (let j = 0; j < k; j++) {
    pen.beginPath();
    for (let i = 0; i < x.length; i++) edge(i);
    for (let i = 0; i < x.length; i++) base[i] += cells[i * k + j];
    for (let i = x.length - 1; i >= 0; i--) edge(i);
    pen.fillStyle = colours[j];
    pen.fill();
  }
  return true;
}

// ---- strips, as figures/states.py draws them and Plotly fills their cells: from whole pixel to whole pixel --------
function strips({ pen, frame, plot, figure }, { rows, step, waiting }, soft) {
  const [first] = figure.data;
  const present = Object.keys(rows).filter((row) => first.y?.includes(row));
  if (!present.length) return false;
  const { surface } = plot.gdm.tokens;
  const gap = first.ygap ?? 0;
  const across = (i) => whole(frame.x, first.x0 + (i - 0.5) * first.dx), down = (i) => whole(frame.y, i - 0.5);
  const band = (row) => [0, 1].map((side) => down(first.y.indexOf(row) + side)).sort((a, b) => a - b);
  for (const row of present) {
    const [top, bottom] = band(row);
    const { states, mixing, stride } = soft(rows[row]);
    const cells = averaged(states, mixing.lab.length, Math.max(1, Math.round(first.dx / (step * stride))));
    const { index, css } = coloured(plot, cells, mixing, 60);
    fill(pen, surface, 1, frame.x.start, top, frame.x.length, bottom - top);
    for (let i = 0, begun = 0; i < index.length; i++) {
      if (i + 1 < index.length && index[i + 1] === index[i]) continue;
      const left = across(begun);
      fill(pen, css[index[i]], 1, left, top + Math.floor(gap / 2), across(i + 1) - left, bottom - top - gap);
      begun = i + 1;
    }
  }
  for (const row of waiting.filter((each) => first.y.includes(each))) {
    const [top, bottom] = band(row);
    fill(pen, surface, 1 - FADED, frame.x.start, top, frame.x.length, bottom - top);
  }
  return true;
}

// Plotly rounds the edges of cells to whole pixels.
const whole = (axis, value) => axis.start + Math.round(axis.at(value) - axis.start);
