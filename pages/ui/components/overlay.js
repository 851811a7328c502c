// Figures of soft states drawn straight into the picture that stands, while a thumb is held: a picture of Plotly's takes
// ten times as long. What is drawn here is what Plotly would draw; its own marks are hidden meanwhile, and the next picture
// of Plotly takes their place. Axes, titles and what lies below stay as they are; what follows from the states and cannot be
// worked out here fades. pages/lab/held.py says how each figure is drawn.

import { edgesOfCells, frameOf } from "./axes.js";
import { averaged, quantise } from "./colours.js";

const SVG = "http://www.w3.org/2000/svg";
const STROKE = /^#[0-9a-f]{8}$/; // the colour of a piece of the path; other shapes of a track have plain ones
const FADED = 0.2;
const TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array };
const KINDS = { track, strips, areas, places };
let made = 0;

export function decode({ bdata, dtype }) {
  const bytes = Uint8Array.from(atob(bdata), (c) => c.charCodeAt(0));
  return new TYPES[dtype](bytes.buffer);
}

// Over `view`, a figure of plot.js, as `how` says; `soft(part)` gives { states, mixing, stride } of a part. False where the
// figure that stands has nothing that could be drawn over.
export function overlay(view, how, soft, colours) {
  if (!frameOf(view.plot)) return false; // not drawn yet
  if (!KINDS[how.kind](view, how, soft, colours)) return false;
  fade(view, how.fades ?? []);
  view.root.toggleAttribute("data-followed", true);
  if (how.badge) {
    const { stride } = soft(how.part ?? Object.values(how.rows)[0]);
    view.root.dataset.state = "preview";
    Object.assign(view.badge, { hidden: false, textContent: how.badge + (stride > 1 ? `, 1 of ${stride} samples` : "") });
  }
  view.updates += 1;
  view.root.dataset.updates = view.updates;
  return true;
}

export function uncover(view) {
  for (const undo of view.overlay?.undo ?? []) undo();
  view.root.toggleAttribute("data-followed", false);
  view.overlay = null;
}

// ---- a track, as figures/track.py draws it --------------------------------------------------------------------
// What a mouse would be told stays that of the server's last picture.
function track(view, { part }, soft) {
  const { plot, figure } = view;
  const { states, mixing } = soft(part);
  const standing = strokes(plot, figure);
  const parent = standing[0]?.parentNode;
  if (!parent || decode(figure.data[0].x).length * mixing.lab.length !== states.length) return false;
  const over = covered(view, parent, standing.at(-1).nextSibling, () => {
    for (const group of strokes(plot, figure)) group.style.display = "";
  });
  for (const group of standing) group.style.display = "none";
  const [x, y] = (over.at ??= rounded(figure));
  const { index, css } = quantise(states, mixing, 40);
  const width = figure.layout.shapes.find(isStroke).line.width;
  paint(over.node, pieces(index, css.length, x, y, placing(plot)), (path, i) => {
    path.style.cssText = `fill:none;stroke:${css[i]};stroke-width:${width}px`;
  });
  const clip = standing[0].getAttribute("clip-path");
  if (clip) over.node.setAttribute("clip-path", clip);
  return true;
}

const isStroke = ({ line }) => STROKE.test(line?.color);

// Plotly's own groups of the pieces of the path.
function strokes(plot, figure) {
  const { shapes } = figure.layout;
  return [...plot.querySelectorAll(".shapelayer .shape-group")].filter(({ dataset }) => isStroke(shapes?.[dataset.index] ?? {}));
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

// From data to pixels of the figure.
function placing(plot) {
  const frame = frameOf(plot);
  return (x, y) => [frame.x.at(x), frame.y.at(y)];
}

// For each colour, the path of all its pieces.
function pieces(index, n, x, y, place) {
  const paths = Array(n).fill("");
  const known = (i) => Number.isFinite(x[i]) && Number.isFinite(y[i]);
  const at = (i) => place(x[i], y[i]).map((v) => v.toFixed(3)).join();
  let before = -1; // the colour of the piece that ends here
  for (let i = 0; i < x.length - 1; i++) {
    const bucket = known(i) && known(i + 1) ? index[i] : -1;
    if (bucket >= 0) paths[bucket] += bucket === before ? `L${at(i + 1)}` : `M${at(i)}L${at(i + 1)}`;
    before = bucket;
  }
  return paths;
}

// ---- samples at places above a ground that stays, on a canvas: dots would be too many for anything else ----------
function places(view, how, soft) {
  const { plot, figure } = view;
  const layers = [plot.querySelector(".gl-container"), plot.querySelector(".cartesianlayer .scatterlayer")];
  const over = covered(view, plot.querySelector(".svg-container"), layers[0]?.nextSibling, () => {
    for (const layer of layers) layer?.style.removeProperty("visibility");
  }, () => document.createElement("canvas"));
  for (const layer of layers) layer?.style.setProperty("visibility", "hidden");
  const { states, mixing, stride } = soft(how.part);
  const thinned = (axis) => decode(axis).filter((_, i) => i % stride === 0);
  const frame = frameOf(plot);
  const place = placing(plot);
  const pen = page(over.node, frame.width, frame.height);
  pen.beginPath();
  pen.rect(frame.x.start, frame.y.start, frame.x.length, frame.y.length);
  pen.clip();
  const [ground] = figure.data;
  over.ground ??= [decode(ground.x), decode(ground.y)];
  const stroke = (path, colour, wide) => {
    Object.assign(pen, { strokeStyle: colour, lineWidth: wide });
    pen.stroke(new Path2D(path));
  };
  stroke(pieces(new Uint8Array(over.ground[0].length), 1, ...over.ground, place)[0], plot.gdm.tokens.grid, ground.line.width);
  const [x, y] = ((over.at ??= {})[stride] ??= [thinned(how.x), thinned(how.y)]);
  const { index, css } = quantise(states, mixing, 40);
  if (how.line) pieces(index, css.length, x, y, place).forEach((path, i) => stroke(path, css[i], how.line));
  else dots(pen, index, css, (i) => place(x[i], y[i]), how.dot / 2);
  return true;
}

function dots(pen, index, css, at, radius) {
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

// A clean canvas as large as the figure.
function page(canvas, width, height) {
  const scale = devicePixelRatio;
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.style.cssText = `position:absolute;left:0;top:0;width:${width}px;height:${height}px;pointer-events:none`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return pen;
}

// ---- stacked shares, as figures/strips.py draws them -------------------------------------------------------------
function areas(view, { part }, soft, colours) {
  const { plot, figure } = view;
  const layer = plot.querySelector(".cartesianlayer .scatterlayer");
  if (!layer) return false;
  const { states, mixing } = soft(part);
  const k = mixing.lab.length, rows = states.length / k;
  const over = covered(view, layer.parentNode, layer.nextSibling, () => layer.style.removeProperty("display"));
  layer.style.display = "none";
  const x = (over.at ??= decode(figure.data[0].x));
  const cells = averaged(states, k, Math.ceil(rows / x.length));
  const frame = frameOf(plot); // where the layer lies, 0 is the corner of the axes
  const across = Array.from(x, (v) => frame.x.within(v).toFixed(2));
  const base = new Float32Array(x.length);
  const paths = Array.from({ length: k }, (_, j) => {
    const below = across.map((at, i) => `${at},${frame.y.within(base[i]).toFixed(2)}`).reverse();
    for (let i = 0; i < x.length; i++) base[i] += cells[i * k + j];
    return `M${across.map((at, i) => `${at},${frame.y.within(base[i]).toFixed(2)}`).join("L")}L${below.join("L")}Z`;
  });
  paint(over.node, paths, (path, i) => (path.style.cssText = `fill:${colours[i]};stroke:none`));
  return true;
}

// ---- strips, as figures/strips.py draws them and Plotly fills their cells: from whole pixel to whole pixel --------
function strips(view, { rows, step, waiting, opacity }, soft) {
  const { plot, figure } = view;
  const [first] = figure.data;
  const layer = plot.querySelector(".cartesianlayer .heatmaplayer");
  const present = Object.keys(rows).filter((row) => first.y?.includes(row));
  if (!present.length || !layer) return false;
  const over = covered(view, layer.parentNode, layer.nextSibling, () => layer.removeAttribute("clip-path"));
  over.name ??= `gdm-overlay-${(made += 1)}`;
  const frame = frameOf(plot), cells = edgesOfCells(plot);
  const across = edges(cells.x, frame.x), down = edges(cells.y, frame.y);
  const gap = first.ygap ?? 0;
  const band = (row) => [0, 1].map((side) => down(first.y.indexOf(row) + side)).sort((a, b) => a - b);
  const drawn = [];
  for (const row of present) {
    const [top, bottom] = band(row);
    const { states, mixing, stride } = soft(rows[row]);
    const cells = averaged(states, mixing.lab.length, Math.max(1, Math.round(first.dx / (step * stride))));
    const { index, css } = quantise(cells, mixing, 60);
    const paths = Array(css.length).fill("");
    for (let i = 0, begun = 0; i < index.length; i++) {
      if (i + 1 < index.length && index[i + 1] === index[i]) continue;
      const [left, right] = [across(begun), across(i + 1)];
      if (right > left) paths[index[i]] += `M${left},${top + Math.floor(gap / 2)}H${right}v${bottom - top - gap}H${left}Z`;
      begun = i + 1;
    }
    paths.forEach((d, i) => drawn.push([d, css[i], opacity ?? 1]));
  }
  for (const row of waiting.filter((each) => first.y.includes(each))) {
    const [top, bottom] = band(row);
    drawn.push([`M0,${top}H${frame.x.length}V${bottom}H0Z`, plot.gdm.tokens.surface, 1 - FADED]);
  }
  paint(over.node, drawn.map(([d]) => d), (path, i) => {
    path.style.cssText = `fill:${drawn[i][1]};opacity:${drawn[i][2]};stroke:none;shape-rendering:crispEdges`;
  });
  hide(over, layer, present.map(band), frame.y.length, frame.x.length);
  return true;
}

// Where the edges of cells lie, as Plotly rounds them.
function edges(values, axis) {
  const ends = [values[0], values.at(-1)].map((v) => axis.category(v));
  const low = Math.max(-0.5 * axis.length, Math.min(...ends));
  const span = Math.round(Math.min(1.5 * axis.length, Math.max(...ends)) - low);
  return (i) => low + Math.min(Math.max(Math.round(axis.category(values[i]) - low), 0), span);
}

// Plotly's cells of these rows, in whichever of its traces they are: what lies above, between and below them is left.
function hide({ node, name }, layer, bands, height, width) {
  const clip = node.querySelector("clipPath") ?? node.appendChild(document.createElementNS(SVG, "clipPath"));
  clip.id = name;
  const tops = [-height, ...bands.flat().sort((a, b) => a - b), 2 * height];
  clip.innerHTML = "";
  for (let i = 0; i < tops.length; i += 2) {
    clip.innerHTML += `<rect x="${-width}" width="${3 * width}" y="${tops[i]}" height="${Math.max(0, tops[i + 1] - tops[i])}"/>`;
  }
  layer.setAttribute("clip-path", `url(#${name})`);
}

// ---- all of them ----------------------------------------------------------------------------------------------
const svgGroup = () => document.createElementNS(SVG, "g");

// What is drawn into, at its place among Plotly's. `undo` brings Plotly's own marks back.
function covered(view, parent, next, undo, make = svgGroup) {
  const { figure } = view;
  if (view.overlay && (view.overlay.figure !== figure || view.overlay.parent !== parent)) uncover(view);
  if (!view.overlay) {
    const node = make();
    node.setAttribute("class", "gdm-overlay");
    view.overlay = { node, figure, parent, undo: [() => node.remove(), undo] };
  }
  const { node } = view.overlay;
  if (next !== node && (node.parentNode !== parent || node.nextSibling !== next)) parent.insertBefore(node, next ?? null);
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

// Annotations of these names.
function fade({ plot, overlay: over }, names) {
  const { annotations } = frameOf(plot);
  for (const mark of plot.querySelectorAll(".infolayer > .annotation")) {
    if (!names.includes(annotations[mark.dataset.index]?.name) || mark.style.opacity === String(FADED)) continue;
    const before = mark.style.opacity;
    mark.style.opacity = FADED;
    over.undo.push(() => (mark.style.opacity = before));
  }
}
