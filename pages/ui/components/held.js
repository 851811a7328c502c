// Tracks and strips of soft states while the thumb of a slider is held: drawn by the browser from the states at some
// values of the setting, which the server sends once, and in straight lines between them. What the server draws meanwhile
// is older than the thumb and waits; the slider let go, its pictures count again.

import draw from "../gdm.plot/plot.js"; // under the address at which Streamlit loads it, so that it is one module

const HEARD = "gdm:slider"; // see slider.js
const COMING = ["pointerover", "pointerdown", "focusin"];
const PASSING_MS = 80; // a mouse on its way elsewhere crosses a slider in less
const MOST_CELLS = 800;
const ROUNDS = 3;
const STROKE = /^#[0-9a-f]{8}$/; // the colour of a piece of the path; other shapes of a track have plain ones

// ---- states ---------------------------------------------------------------------------------------------------
// [T * K] soft states at `value`, between its two neighbours among `values`.
export function statesAt({ values, shape, states }, value) {
  const [, length, k] = shape;
  const inside = Math.min(Math.max(value, values[0]), values.at(-1));
  const above = Math.max(1, values.findIndex((each) => each >= inside));
  const share = (inside - values[above - 1]) / (values[above] - values[above - 1]);
  const size = length * k;
  const mixed = new Float32Array(size);
  for (let i = 0, low = (above - 1) * size, high = above * size; i < size; i++) {
    mixed[i] = (states[low + i] + share * (states[high + i] - states[low + i])) / 255;
  }
  return mixed;
}

function averaged(states, k, width) {
  const rows = states.length / k;
  const found = new Float32Array(Math.ceil(rows / width) * k);
  for (let i = 0; i < found.length / k; i++) {
    const last = Math.min((i + 1) * width, rows);
    for (let row = i * width; row < last; row++) {
      for (let j = 0; j < k; j++) found[i * k + j] += states[row * k + j] / (last - i * width);
    }
  }
  return found;
}

// ---- colours, as palette.py mixes and quantises them -----------------------------------------------------------
function features(states, { lab }) {
  const k = lab.length;
  const found = new Float64Array((4 * states.length) / k);
  for (let i = 0; i < found.length / 4; i++) {
    let top = 0;
    for (let j = 0; j < k; j++) {
      const share = states[i * k + j];
      for (let c = 0; c < 3; c++) found[4 * i + c] += share * lab[j][c];
      if (share > top) top = share;
    }
    found[4 * i + 3] = 0.35 * top;
  }
  return found;
}

function cellsOf(feature, size) {
  const known = new Map();
  const cellOf = new Uint32Array(feature.length / 4);
  for (let i = 0; i < cellOf.length; i++) {
    let code = 0;
    for (let c = 0; c < 4; c++) code = code * 128 + Math.floor(feature[4 * i + c] / size + 0.5) + 64;
    if (!known.has(code)) known.set(code, known.size);
    cellOf[i] = known.get(code);
  }
  const rank = new Map([...known.keys()].sort((a, b) => a - b).map((code, i) => [known.get(code), i]));
  return { cellOf: cellOf.map((cell) => rank.get(cell)), n: known.size };
}

function nearest(centres, mean) {
  let best = 0, least = Infinity;
  centres.forEach((centre, i) => {
    const far = centre.reduce((sum, v, c) => sum + (v - mean[c]) ** 2, 0);
    if (far < least) [best, least] = [i, far];
  });
  return best;
}

// { index [T], css }: at most `limit` colours for all moments.
export function quantise(states, mixing, limit) {
  const feature = features(states, mixing);
  let size = 0.03;
  let cells = cellsOf(feature, size);
  while (cells.n > MOST_CELLS) cells = cellsOf(feature, (size *= 1.6));
  const count = new Float64Array(cells.n);
  const mean = Array.from({ length: cells.n }, () => [0, 0, 0, 0]);
  cells.cellOf.forEach((cell, i) => {
    count[cell] += 1;
    for (let c = 0; c < 4; c++) mean[cell][c] += feature[4 * i + c];
  });
  mean.forEach((sum, cell) => (mean[cell] = sum.map((v) => v / count[cell])));
  const fullest = [...count.keys()].sort((a, b) => count[b] - count[a] || a - b).slice(0, limit);
  let centres = fullest.sort((a, b) => a - b).map((cell) => mean[cell]);
  for (let round = 0; round < (cells.n > limit ? ROUNDS : 0); round++) {
    const weight = centres.map(() => 0);
    const sums = centres.map(() => [0, 0, 0, 0]);
    mean.forEach((at, cell) => {
      const here = nearest(centres, at);
      weight[here] += count[cell];
      at.forEach((v, c) => (sums[here][c] += count[cell] * v));
    });
    centres = centres.map((centre, i) => (weight[i] ? sums[i].map((v) => v / weight[i]) : centre));
  }
  const bucketOf = mean.map((at) => nearest(centres, at));
  return { index: cells.cellOf.map((cell) => bucketOf[cell]), css: centres.map((centre) => css(centre, mixing)) };
}

function css([l, a, b, top], { from_lab, from_lms }) {
  const times = (matrix, [x, y, z]) => matrix.map((row) => row[0] * x + row[1] * y + row[2] * z);
  const linear = times(from_lms, times(from_lab, [l, a, b]).map((v) => v ** 3));
  const bytes = linear.map((v) => {
    const light = Math.min(Math.max(v, 0), 1);
    return Math.floor(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055) + 0.5);
  });
  bytes.push(Math.round(255 * Math.min(Math.max(top / 0.35, 0), 1)));
  return `#${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

// ---- figures --------------------------------------------------------------------------------------------------
const TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array };

function decode({ bdata, dtype }) {
  const bytes = Uint8Array.from(atob(bdata), (c) => c.charCodeAt(0));
  return new TYPES[dtype](bytes.buffer);
}

// A track as figures/track.py draws it. What a mouse would be told stays that of the server's last picture.
export function track(figure, states, mixing) {
  const [x, y] = ["x", "y"].map((name) => decode(figure.data[0][name]));
  const { index, css } = quantise(states, mixing, 40);
  const span = Math.max(...[x, y].map((v) => v.reduce((a, b) => Math.max(a, b)) - v.reduce((a, b) => Math.min(a, b))));
  const digits = Math.max(0, 4 - Math.floor(Math.log10(Math.max(span, 1e-12))));
  const place = (i) => `${x[i].toFixed(digits)},${y[i].toFixed(digits)}`;
  const paths = css.map(() => "");
  for (let i = 0; i < x.length - 1; i++) {
    const bucket = index[i];
    paths[bucket] += i && index[i - 1] === bucket ? `L${place(i + 1)}` : `M${place(i)}L${place(i + 1)}`;
  }
  const { shapes } = figure.layout;
  const isStroke = ({ line }) => STROKE.test(line?.color);
  const look = shapes.find(isStroke);
  const strokes = css.map((color, i) => ({ ...look, path: paths[i], line: { ...look.line, color } }));
  const rest = shapes.filter((shape) => !isStroke(shape));
  return { ...figure, layout: { ...figure.layout, shapes: [...rest, ...strokes.filter(({ path }) => path)] } };
}

// Strips as figures/strips.py draws them, with another `row`.
export function strips(figure, states, mixing, row, step) {
  const [first] = figure.data;
  const at = first.y.indexOf(row);
  const z = decode(first.z);
  const columns = z.length / first.y.length;
  const cells = averaged(states, mixing.lab.length, Math.max(1, Math.round(first.dx / step)));
  const { index, css } = quantise(cells, mixing, 60);
  const clear = Math.round(first.zmax - 0.5);
  const others = z.slice().fill(clear, at * columns, (at + 1) * columns);
  const mine = new Uint8Array(z.length).fill(css.length);
  mine.set(index, at * columns);
  const rows = (values) => first.y.map((_, i) => values.subarray(i * columns, (i + 1) * columns));
  const scale = [...css, "$clear"].flatMap((color, i, all) => [[i / all.length, color], [(i + 1) / all.length, color]]);
  const moved = { ...first, z: rows(mine), colorscale: scale, zmax: css.length + 0.5, opacity: 0.86 };
  const marked = figure.data.slice(1).filter(({ type, z }) => type !== "heatmap" || !isRow(decode(z), at, columns, first));
  return { ...figure, data: [{ ...first, z: rows(others) }, ...marked, moved] };
}

// Whether a marked row's own trace is that of row `at`.
const isRow = (z, at, columns, { zmax }) => z.subarray(at * columns, (at + 1) * columns).some((v) => v !== Math.round(zmax - 0.5));

// ---- following the thumb --------------------------------------------------------------------------------------
function begin(parent) {
  const view = { parent, data: {}, offers: {}, asked: {}, value: null, held: false, busy: false };
  view.heard = (event) => {
    const { key, value, held } = event.detail;
    if (key !== view.data.slider) return;
    Object.assign(view, { value, held });
    if (!held) {
      release(view);
      return;
    }
    event.preventDefault(); // the slider need not ask the server for each picture
    follow(view);
  };
  window.addEventListener(HEARD, view.heard);
  view.near = (event) => comeNear(view, event);
  for (const name of COMING) window.addEventListener(name, view.near);
  return view;
}

// ---- a hand comes near ----------------------------------------------------------------------------------------
const railOf = (key) => document.querySelector(`.st-key-slider-${key} .rail`);

function comeNear(view, { type, target }) {
  const key = Object.keys(view.offers).find((each) => railOf(each)?.contains(target));
  if (!key) return;
  if (type === "pointerover") setTimeout(() => railOf(key)?.matches(":hover") && askFor(view, key), PASSING_MS);
  else askFor(view, key);
}

// The server works the states out from now on; said once for each fit, of which an offer is the name.
function askFor(view, key) {
  const name = view.offers[key];
  if (!name || view.asked[key] === name) return;
  view.asked[key] = name;
  view.send("near", key);
}

function places({ data }) {
  return Object.entries(data.figures ?? {}).flatMap(([key, row]) => {
    const node = document.querySelector(`.st-key-${key} .gdm-figure`)?.parentElement;
    return node?.gdmView?.given ? [{ plot: node.gdmView, row }] : [];
  });
}

function release(view) {
  for (const { plot } of places(view)) plot.waits = null;
}

async function follow(view) {
  if (view.busy) {
    view.again = true;
    return;
  }
  view.busy = true;
  do {
    view.again = false;
    await new Promise(requestAnimationFrame);
    if (!view.held || !view.data.slider) break;
    const states = statesAt(view.data, view.value);
    for (const { plot, row } of places(view)) {
      plot.waits = () => view.held && follow(view); // a newer figure of the server is where the next picture starts
      const { given } = plot;
      const made = row ? strips(given.data.figure, states, view.data.mixing, row, view.data.step) : track(given.data.figure, states, view.data.mixing);
      draw({ ...given, data: { ...given.data, figure: { ...made, moving: true }, options: { ...given.data.options, ...view.data.look } } }, true);
      await plot.job;
    }
  } while (view.again);
  view.busy = false;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = (parentElement.gdmHeld ??= begin(parentElement));
  Object.assign(view, { offers: data.offers ?? {}, send: setTriggerValue });
  for (const key in view.offers) if (railOf(key)?.matches(":hover")) askFor(view, key); // a hand that stayed
  if (data.slider) {
    if (data.name !== view.data.name) view.data = { ...data, states: decode(data.states) };
  } else if (view.data.slider && !view.held) {
    const left = places(view);
    view.data = {};
    for (const { plot } of left) draw(plot.given); // what the server last drew may have waited
  }
  return () => setTimeout(() => parentElement.isConnected || end(view, parentElement));
}

function end(view, parentElement) {
  if (parentElement.gdmHeld !== view) return;
  release(view);
  window.removeEventListener(HEARD, view.heard);
  for (const name of COMING) window.removeEventListener(name, view.near);
  delete parentElement.gdmHeld;
}
