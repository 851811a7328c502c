// Tracks and strips drawn straight into the picture of a figure that stands, while a thumb is held: a picture of Plotly's
// takes ten times as long. What is drawn here is what Plotly would draw; its own marks are hidden meanwhile, and the next
// picture of Plotly takes their place. Axes, titles, badges and what lies below and above stay as they are.

import { averaged, quantise } from "./colours.js";

const SVG = "http://www.w3.org/2000/svg";
const STROKE = /^#[0-9a-f]{8}$/; // the colour of a piece of the path; other shapes of a track have plain ones
const OPACITY = 0.86; // of a row that is in question, as in pages/nascar/pictures.py
const TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array };
let made = 0;

export function decode({ bdata, dtype }) {
  const bytes = Uint8Array.from(atob(bdata), (c) => c.charCodeAt(0));
  return new TYPES[dtype](bytes.buffer);
}

// Over `view`, a figure of plot.js: its path in the colours of `states`, or its strip called `row`; false where it has none.
export function overlay(view, states, mixing, row, step) {
  if (!view.plot._fullLayout?.xaxis) return false; // not drawn yet
  const drawn = row ? strip(view, states, mixing, row, step) : track(view, states, mixing);
  if (!drawn) return false;
  view.updates += 1;
  view.root.dataset.updates = view.updates;
  return true;
}

export function uncover(view) {
  view.overlay?.undo();
  view.overlay = null;
}

// ---- a track, as figures/track.py draws it --------------------------------------------------------------------
// What a mouse would be told stays that of the server's last picture.
function track(view, states, mixing) {
  const { plot, figure } = view;
  const standing = strokes(plot, figure);
  const over = covered(view, figure, standing[0]?.parentNode, () => standing.at(-1).nextSibling);
  if (!over) return false;
  for (const group of standing) group.style.display = "none";
  over.undo = () => {
    over.group.remove();
    for (const group of strokes(plot, figure)) group.style.display = "";
  };
  const { xaxis, yaxis } = plot._fullLayout;
  const [x, y] = (over.places ??= rounded(figure));
  const known = (i) => Number.isFinite(x[i]) && Number.isFinite(y[i]);
  const place = (i) => `${(xaxis._offset + xaxis.l2p(x[i])).toFixed(3)},${(yaxis._offset + yaxis.l2p(y[i])).toFixed(3)}`;
  const { index, css } = quantise(states, mixing, 40);
  const width = figure.layout.shapes.find(isStroke).line.width;
  paint(over.group, pieces(index, css.length, x.length, known, place), (path, i) => {
    path.style.cssText = `fill:none;stroke:${css[i]};stroke-width:${width}px`;
  });
  const clip = standing[0].getAttribute("clip-path");
  if (clip) over.group.setAttribute("clip-path", clip);
  return true;
}

const isStroke = ({ line }) => STROKE.test(line?.color);

// Plotly's own groups of the pieces of the path.
function strokes(plot, figure) {
  const { shapes } = figure.layout;
  return [...plot.querySelectorAll(".shapelayer .shape-group")].filter(({ dataset }) => isStroke(shapes[dataset.index] ?? {}));
}

// The points of the path, with as many digits as the server writes.
function rounded(figure) {
  const places = ["x", "y"].map((name) => decode(figure.data[0][name]));
  const known = places[0].map((_, i) => Number.isFinite(places[0][i]) && Number.isFinite(places[1][i]));
  const span = Math.max(...places.map((v) => extent(v.filter((_, i) => known[i]))), 1e-12);
  const scale = 10 ** Math.max(0, 4 - Math.floor(Math.log10(span)));
  return places.map((v) => Float64Array.from(v, (each) => Math.round(each * scale) / scale));
}

const extent = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity) - values.reduce((a, b) => Math.min(a, b), Infinity);

// For each colour, the path of all its pieces.
function pieces(index, n, length, known, place) {
  const paths = Array(n).fill("");
  let before = -1; // the colour of the piece that ends here
  for (let i = 0; i < length - 1; i++) {
    const bucket = known(i) && known(i + 1) ? index[i] : -1;
    if (bucket >= 0) paths[bucket] += bucket === before ? `L${place(i + 1)}` : `M${place(i)}L${place(i + 1)}`;
    before = bucket;
  }
  return paths;
}

// ---- a strip, as figures/strips.py draws it and Plotly fills its cells: from whole pixel to whole pixel -----------
function strip(view, states, mixing, row, step) {
  const { plot, figure } = view;
  const [first] = figure.data;
  const at = first.y.indexOf(row);
  const layer = plot.querySelector(".cartesianlayer .heatmaplayer");
  const over = at >= 0 && covered(view, figure, layer?.parentNode, () => layer.nextSibling);
  if (!over) return false;
  over.name ??= `gdm-overlay-${(made += 1)}`;
  over.undo = () => {
    over.group.remove();
    layer.removeAttribute("clip-path");
  };
  const { xaxis, yaxis } = plot._fullLayout;
  const [{ x, y }] = plot.calcdata[0]; // edges of the cells
  const across = edges(x, xaxis), down = edges(y, yaxis);
  const [top, bottom] = [down(at), down(at + 1)].sort((a, b) => a - b);
  const gap = first.ygap ?? 0;
  const [from, high] = [top + Math.floor(gap / 2), bottom - top - gap];
  const cells = averaged(states, mixing.lab.length, Math.max(1, Math.round(first.dx / step)));
  const { index, css } = quantise(cells, mixing, 60);
  const paths = Array(css.length).fill("");
  for (let i = 0, begun = 0; i < index.length; i++) {
    if (i + 1 < index.length && index[i + 1] === index[i]) continue;
    const [left, right] = [across(begun), across(i + 1)];
    if (right > left) paths[index[i]] += `M${left},${from}H${right}v${high}H${left}Z`;
    begun = i + 1;
  }
  over.group.style.opacity = OPACITY;
  paint(over.group, paths, (path, i) => (path.style.cssText = `fill:${css[i]};stroke:none;shape-rendering:crispEdges`));
  hide(over, layer, top, bottom, yaxis._length, xaxis._length);
  return true;
}

// Where the edges of cells lie, as Plotly rounds them.
function edges(values, axis) {
  const ends = [values[0], values.at(-1)].map((v) => axis.c2p(v));
  const low = Math.max(-0.5 * axis._length, Math.min(...ends));
  const span = Math.round(Math.min(1.5 * axis._length, Math.max(...ends)) - low);
  return (i) => low + Math.min(Math.max(Math.round(axis.c2p(values[i]) - low), 0), span);
}

// Plotly's cells of this row, in whichever of its traces they are: what lies above and below them is left.
function hide({ group, name }, layer, top, bottom, height, width) {
  const clip = group.querySelector("clipPath") ?? group.appendChild(document.createElementNS(SVG, "clipPath"));
  clip.id = name;
  clip.innerHTML = `<rect x="${-width}" width="${3 * width}" y="${-height}" height="${height + top}"/>
    <rect x="${-width}" width="${3 * width}" y="${bottom}" height="${height}"/>`;
  layer.setAttribute("clip-path", `url(#${name})`);
}

// ---- both -----------------------------------------------------------------------------------------------------
// The group that is drawn into, at its place among Plotly's; null where the figure has nothing to be drawn over.
function covered(view, figure, parent, before) {
  if (!parent) return null;
  if (view.overlay && (view.overlay.figure !== figure || view.overlay.parent !== parent)) uncover(view);
  if (!view.overlay) {
    const group = document.createElementNS(SVG, "g");
    group.setAttribute("class", "gdm-overlay");
    view.overlay = { group, figure, parent };
  }
  const { group } = view.overlay;
  const next = before();
  if (next !== group && (group.parentNode !== parent || group.nextSibling !== next)) parent.insertBefore(group, next);
  return view.overlay;
}

function paint(group, paths, look) {
  const nodes = [...group.querySelectorAll(":scope > path")];
  paths.forEach((d, i) => {
    const node = nodes[i] ?? group.appendChild(document.createElementNS(SVG, "path"));
    node.setAttribute("d", d);
    look(node, i);
  });
  for (const node of nodes.slice(paths.length)) node.remove();
}
