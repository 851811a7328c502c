// The triangle of the Playground, drawn by the browser while a slider moves: the draws keep their noise, so that they
// glide. A dot can be taken hold of: the evidence follows, so that this very draw lies under the finger.

import draw from "../gdm.plot/plot.js"; // under the address at which Streamlit loads it, so that it is one module

const HEARD = "gdm:slider"; // see slider.js
const MOVE = "gdm:slider-move";
const ROOT3 = Math.sqrt(3) / 2;
const EDGE = 0.01;
const HELD = [0.9, 0.7, 0.5, 0.3, 0.1]; // shares of draws inside the lines of the shading, as on the server
const GRID = 72;
const MANY = 3000; // draws that the lines are found from
const REACH = { mouse: 10, touch: 20, pen: 14 }; // pixels from a dot within which it is taken hold of
const SIDES = ["logit", "other"];

// ---- the distribution -----------------------------------------------------------------------------------------
// Soft states, one after the other, of noise given in the same way.
function draws(logits, tau, scale, noise) {
  const z = new Float64Array(noise.length);
  for (let i = 0; i < noise.length; i += 3) {
    const u = [0, 1, 2].map((k) => (logits[k] + scale * noise[i + k]) / tau);
    const top = Math.max(...u);
    const e = u.map((v) => Math.exp(v - top));
    const sum = e[0] + e[1] + e[2];
    for (let k = 0; k < 3; k++) z[i + k] = e[k] / sum;
  }
  return z;
}

function inside(z) {
  const moved = new Float64Array(z.length);
  for (let i = 0; i < z.length; i += 3) {
    const up = [0, 1, 2].map((k) => Math.max(z[i + k], EDGE));
    const sum = up[0] + up[1] + up[2];
    for (let k = 0; k < 3; k++) moved[i + k] = up[k] / sum;
  }
  return moved;
}

// On the simplex, up to a constant: the lines lie where they hold their shares of the draws, whatever it is.
function logDensity(z, logits, tau, scale) {
  const found = new Float64Array(z.length / 3);
  for (let i = 0; i < found.length; i++) {
    let sum = 0, logs = 0, powers = 0;
    for (let k = 0; k < 3; k++) {
      const log = Math.log(z[3 * i + k]);
      const u = (logits[k] - tau * log) / scale;
      sum += u;
      powers += Math.exp(u);
      logs += log;
    }
    found[i] = sum - 3 * Math.log(powers) - logs;
  }
  return found;
}

const across = (z, i) => z[3 * i + 1] + 0.5 * z[3 * i + 2];
const up = (z, i) => ROOT3 * z[3 * i + 2];
const column = (z, where) => Float64Array.from({ length: z.length / 3 }, (_, i) => where(z, i));

function quantile(sorted, share) {
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (at - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

function line(low, high) {
  return Float64Array.from({ length: GRID }, (_, i) => low + (i * (high - low)) / (GRID - 1));
}

// An axis of the grid over most of the draws, with a margin.
function around(places, most) {
  const sorted = places.sort();
  const [low, high] = [0.002, 0.998].map((share) => quantile(sorted, share));
  const margin = 0.15 * (high - low) + 0.01;
  return line(Math.max(low - margin, 0), Math.min(high + margin, most));
}

// Values on a scale where the levels are 1, 2, ...: contours are drawn at equal steps alone.
function banded(values, levels) {
  const steps = [];
  levels.forEach((level, i) => steps.push(Math.max(level + 1e-9 * i, steps[i - 1] ?? -Infinity)));
  steps.unshift(2 * steps[0] - steps[1]);
  steps.push(2 * steps.at(-1) - steps.at(-2));
  return values.map((value) => {
    if (value <= steps[0]) return 0;
    if (value >= steps.at(-1)) return steps.length - 1;
    const above = steps.findIndex((step) => step > value);
    return above - 1 + (value - steps[above - 1]) / (steps[above] - steps[above - 1]);
  });
}

function shading({ logit, softness, noise }, many) {
  const spread = inside(draws(logit, softness, noise, many));
  const levels = logDensity(spread, logit, softness, noise).sort();
  const x = around(column(spread, across), 1);
  const y = around(column(spread, up), ROOT3);
  const grid = new Float64Array(3 * GRID * GRID);
  for (let row = 0; row < GRID; row++) {
    for (let i = 0; i < GRID; i++) {
      const top = y[row] / ROOT3;
      const second = x[i] - 0.5 * top;
      grid.set([1 - second - top, second, top], 3 * (row * GRID + i));
    }
  }
  const density = logDensity(inside(grid), logit, softness, noise);
  const z = banded(density, HELD.map((share) => quantile(levels, 1 - share)));
  return { x, y, z: Array.from({ length: GRID }, (_, row) => z.subarray(row * GRID, (row + 1) * GRID)) };
}

// ---- the picture ----------------------------------------------------------------------------------------------
// The figure of the server with everything in it that follows the settings.
export function picture(figure, sources, now) {
  const z = draws(now.logit, now.softness, now.noise, sources.dots);
  const hollow = draws(now.other, now.softness, now.noise, sources.hollow);
  const isDots = ({ mode, marker }) => mode === "markers" && marker.symbol !== "circle-open";
  const look = figure.data.find(isDots);
  const data = figure.data.filter((trace) => !isDots(trace)).map((trace) => {
    if (trace.type === "contour") return { ...trace, ...shading(now, sources.many) };
    if (trace.mode === "markers") return { ...trace, ...places(hollow, [...Array(hollow.length / 3).keys()]) };
    return trace;
  });
  return { ...figure, data: data.concat(dots(z, look, sources.colours)) };
}

function places(z, which) {
  const shares = (i) => [0, 1, 2].map((k) => Math.round(100 * z[3 * i + k]));
  return { x: which.map((i) => across(z, i)), y: which.map((i) => up(z, i)), customdata: which.map(shares) };
}

// One trace a colour. `colours` are those of a grid of shares.
function dots(z, look, { steps, table }) {
  const groups = new Map();
  for (let i = 0; i < z.length / 3; i++) {
    const first = Math.round(steps * z[3 * i]);
    const colour = table[first][Math.min(steps - first, Math.round(steps * z[3 * i + 1]))];
    if (!groups.has(colour)) groups.set(colour, []);
    groups.get(colour).push(i);
  }
  return [...groups].map(([color, which]) => ({ ...look, ...places(z, which), marker: { ...look.marker, color } }));
}

function decode({ bdata }) {
  const bytes = Uint8Array.from(atob(bdata), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// Standard Gumbel noise that is the same on every visit.
function gumbel(n) {
  let seed = 1;
  return Float64Array.from({ length: 3 * n }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return -Math.log(-Math.log((seed + 0.5) / 2 ** 32));
  });
}

const MANY_NOISE = gumbel(MANY);

// ---- following sliders, and being taken hold of ---------------------------------------------------------------
export default function (given) {
  const { data, parentElement } = given;
  const view = (parentElement.gdmSimplex ??= begin(parentElement));
  const { settings, dots: first, hollow, colours } = data.follow;
  view.sources = { dots: decode(first), hollow: decode(hollow), many: MANY_NOISE, colours };
  Object.assign(view, { given, range: settings.range });
  view.now ??= structuredClone(settings);
  // A figure that was asked for before the thumb went on would pull the picture back.
  const same = ["logit", "other", "softness", "noise"].every((name) => String(settings[name]) === String(view.now[name]));
  if (same) show(view, data.figure);
  else follow(view);
  return () => {
    view.finish?.();
    setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
  };
}

function show(view, figure) {
  view.shown = SIDES.map((_, side) => where(view, side));
  view.finish = draw({ ...view.given, data: { ...view.given.data, figure } });
}

// Soft states of the dots, full (0) or hollow (1).
function where({ now, sources }, side) {
  return draws(now[SIDES[side]], now.softness, now.noise, [sources.dots, sources.hollow][side]);
}

function begin(parent) {
  const view = { parent, now: null, grip: null, frame: 0 };
  view.heard = ({ detail: { key, value } }) => {
    const [, name, index] = key.match(/^([a-z]+)(\d?)$/) ?? [];
    if (view.grip || !(name in (view.now ?? {}))) return;
    if (index) view.now[name][index - 1] = value;
    else view.now[name] = value;
    follow(view);
  };
  window.addEventListener(HEARD, view.heard);
  parent.addEventListener("pointerdown", (event) => take(view, event), true);
  parent.addEventListener("pointermove", (event) => hover(view, event));
  // Where a finger lands on a dot, the page must not scroll away under it.
  parent.addEventListener("touchstart", (event) => view.grip && event.cancelable && event.preventDefault(), { passive: false });
  return view;
}

function tearDown(view, parent) {
  if (parent.gdmSimplex !== view) return;
  window.removeEventListener(HEARD, view.heard);
  delete parent.gdmSimplex;
}

// The picture of the latest settings, once a frame at most and never two at a time.
function follow(view) {
  view.again = true;
  if (view.frame) return;
  view.frame = requestAnimationFrame(async () => {
    view.again = false;
    show(view, picture(view.given.data.figure, view.sources, view.now));
    await view.parent.gdmView.job;
    view.frame = 0;
    if (view.again) follow(view);
  });
}

function axes(view) {
  const plot = view.parent.querySelector(".gdm-plot");
  const { xaxis, yaxis } = plot?._fullLayout ?? {};
  return xaxis && { plot, xaxis, yaxis, box: plot.getBoundingClientRect() };
}

// [which side, which draw] under the pointer.
function nearest(view, event) {
  const found = axes(view);
  if (!found || !view.shown) return null;
  const { xaxis, yaxis, box } = found;
  let best = null, least = REACH[event.pointerType] ?? REACH.mouse;
  view.shown.forEach((z, side) => {
    for (let i = 0; i < z.length / 3; i++) {
      const dx = box.left + xaxis._offset + xaxis.l2p(across(z, i)) - event.clientX;
      const dy = box.top + yaxis._offset + yaxis.l2p(up(z, i)) - event.clientY;
      const distance = Math.hypot(dx, dy);
      if (distance < least) [best, least] = [[side, i], distance];
    }
  });
  return best;
}

function hover(view, event) {
  if (event.buttons || event.pointerType !== "mouse") return;
  view.parent.querySelector(".gdm-plot")?.classList.toggle("gdm-grip", nearest(view, event) !== null);
}

function take(view, event) {
  if (event.button !== 0 || event.target.closest(".modebar")) return;
  const hit = nearest(view, event);
  if (!hit) return;
  view.grip = hit;
  event.preventDefault();
  event.stopPropagation();
  const move = (moved) => moved.pointerId === event.pointerId && drag(view, moved);
  const drop = (lifted) => {
    if (lifted.pointerId !== event.pointerId) return;
    for (const name of ["pointerup", "pointercancel"]) window.removeEventListener(name, drop);
    window.removeEventListener("pointermove", move);
    tell(view, false);
    view.grip = null;
    follow(view);
  };
  window.addEventListener("pointermove", move);
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, drop);
}

// The evidence under which this draw, with its own noise, lies at the pointer. Only differences count: the middle of
// the three stays where it was, or moves as far as the range of the sliders asks.
function drag(view, event) {
  const { xaxis, yaxis, box } = axes(view);
  const top = yaxis.p2l(event.clientY - box.top - yaxis._offset) / ROOT3;
  const second = xaxis.p2l(event.clientX - box.left - xaxis._offset) - 0.5 * top;
  const [side, i] = view.grip;
  const { softness, noise } = view.now;
  const name = SIDES[side];
  const z = inside(Float64Array.of(1 - second - top, second, top));
  const gumbels = [view.sources.dots, view.sources.hollow][side];
  const wanted = [0, 1, 2].map((k) => softness * Math.log(z[k]) - noise * gumbels[3 * i + k]);
  const mean = (values) => (values[0] + values[1] + values[2]) / 3;
  const middle = mean(view.now[name]) - mean(wanted);
  const [low, high] = view.range;
  const shift = Math.min(Math.max(middle, low - Math.min(...wanted)), high - Math.max(...wanted));
  view.now[name] = wanted.map((value) => Math.min(Math.max(value + shift, low), high));
  tell(view, true);
  follow(view);
}

// The sliders go along. Let go, they snap to their steps, and say where they stand.
function tell(view, held) {
  const name = SIDES[view.grip[0]];
  const values = view.now[name];
  if (!held) view.grip = null;
  values.forEach((value, k) => {
    window.dispatchEvent(new CustomEvent(MOVE, { detail: { key: `${name}${k + 1}`, value, held } }));
  });
}
