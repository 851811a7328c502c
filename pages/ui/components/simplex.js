// The simplex of the Playground. While a slider or a dot is dragged, the browser draws the dots on a canvas; the density follows
// with the page. Dragging a dot moves the sliders to logits under which this draw is there.

import draw from "./plot.js";
import { axesOf } from "./axes.js";
import { decode } from "./colours.js";

const HEARD = "gdm:slider"; // see slider.js
const MOVE = "gdm:slider-move";
const ROOT3 = Math.sqrt(3) / 2;
const EDGE = 0.01; // smallest share of a dragged dot
const RADIUS = 3; // of a dot, in pixels, as on the server
const REACH = { mouse: 10, touch: 20, pen: 14 }; // pixels from a dot within which it can be grabbed
const SIDES = ["logit", "other"];
const NAMES = [...SIDES, "tau", "noise"];

// Return soft states of noise, as in gdm_core.maths.relaxed.
export function draws(logits, tau, scale, noise) {
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

const across = (z, i) => z[3 * i + 1] + 0.5 * z[3 * i + 2];
const up = (z, i) => ROOT3 * z[3 * i + 2];

function begin(parent) {
  const view = { parent, now: null, grip: null, held: false, frame: 0 };
  view.heard = ({ detail: { key, value, held } }) => {
    const [, name, index] = key.match(/^([a-z]+)(\d?)$/) ?? [];
    if (view.grip || !NAMES.includes(name)) return;
    if (index) view.now[name][index - 1] = value;
    else view.now[name] = value;
    view.held = held;
    follow(view);
  };
  window.addEventListener(HEARD, view.heard);
  parent.addEventListener("pointerdown", (event) => take(view, event), true);
  parent.addEventListener("pointermove", (event) => hover(view, event));
  // The page must not scroll while a dot is dragged.
  parent.addEventListener("touchstart", (event) => view.grip && event.cancelable && event.preventDefault(), { passive: false });
  return view;
}

export default function (given) {
  const { data, parentElement } = given;
  const view = (parentElement.gdmSimplex ??= begin(parentElement));
  const { settings, dots, hollow, colours, range } = data.follow;
  Object.assign(view, { noise: [decode(dots), decode(hollow)], colours, range });
  // Settings changed elsewhere, such as by Back; otherwise this is the figure of an earlier value.
  if (!view.now || (!view.held && isCurrent(view))) view.now = structuredClone(settings);
  view.settings = settings;
  const finish = draw(given);
  parentElement.gdmView.job.then(() => follow(view));
  return () => {
    finish?.();
    setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
  };
}

function tearDown(view, parent) {
  if (parent.gdmSimplex !== view) return;
  window.removeEventListener(HEARD, view.heard);
  delete parent.gdmSimplex;
}

// Return soft states of the dots, full (0) or hollow (1).
const where = ({ now, noise }, side) => draws(now[SIDES[side]], now.tau, now.noise, noise[side]);

function axes({ parent }) {
  const plot = parent.querySelector(".gdm-plot");
  const frame = axesOf(plot);
  return frame && { plot, x: frame.x, y: frame.y, box: plot.getBoundingClientRect() };
}

// ---- the dots while something is held -------------------------------------------------------------------------
// The figure's own dots are hidden (styles.css) until the page has drawn the current settings.
function follow(view) {
  view.frame ||= requestAnimationFrame(() => {
    view.frame = 0;
    if (view.held || !isCurrent(view)) paint(view);
    else view.canvas?.remove();
  });
}

// Whether the page has drawn the values of the sliders.
const isCurrent = ({ now, settings }) => NAMES.every((name) => String(settings[name]) === String(now[name]));

function paint(view) {
  const found = axes(view);
  if (!found) return;
  const { plot, x, y, box } = found;
  const { gdmView: figure } = view.parent;
  figure.root.dataset.updates = figure.updates += 1;
  const canvas = (view.canvas ??= Object.assign(document.createElement("canvas"), { className: "gdm-dots" }));
  if (canvas.parentElement !== plot) plot.append(canvas);
  const scale = devicePixelRatio;
  Object.assign(canvas, { width: Math.round(box.width * scale), height: Math.round(box.height * scale) });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.rect(x.start, y.start, x.length, y.length);
  pen.clip();
  const { surface, muted } = plot.gdm.tokens;
  [1, 0].forEach((side) => {
    const z = where(view, side);
    Object.assign(pen, side ? { globalAlpha: 0.7, strokeStyle: muted, lineWidth: 1 } : { globalAlpha: 1, strokeStyle: surface, lineWidth: 0.5 });
    for (let i = 0; i < z.length / 3; i++) {
      pen.beginPath();
      pen.arc(x.at(across(z, i)), y.at(up(z, i)), RADIUS, 0, 2 * Math.PI);
      if (!side) {
        pen.fillStyle = colourOf(z, i, view.colours);
        pen.fill();
      }
      pen.stroke();
    }
  });
}

function colourOf(z, i, { steps, table }) {
  const first = Math.round(steps * z[3 * i]);
  return table[first][Math.min(steps - first, Math.round(steps * z[3 * i + 1]))];
}

// ---- dots that are dragged ------------------------------------------------------------------------------------
// Return [side, draw] under the pointer.
function nearest(view, { pointerType, clientX, clientY }) {
  const found = axes(view);
  if (!found) return null;
  const { x, y, box } = found;
  let best = null, least = REACH[pointerType] ?? REACH.mouse;
  SIDES.forEach((_, side) => {
    const z = where(view, side);
    for (let i = 0; i < z.length / 3; i++) {
      const distance = Math.hypot(box.left + x.at(across(z, i)) - clientX, box.top + y.at(up(z, i)) - clientY);
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
  Object.assign(view, { grip: hit, held: true });
  event.preventDefault();
  event.stopPropagation();
  const move = (moved) => moved.pointerId === event.pointerId && drag(view, moved);
  const drop = (lifted) => {
    if (lifted.pointerId !== event.pointerId) return;
    for (const name of ["pointerup", "pointercancel"]) window.removeEventListener(name, drop);
    window.removeEventListener("pointermove", move);
    tell(view, false);
  };
  window.addEventListener("pointermove", move);
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, drop);
}

// Find logits under which the dragged draw is under the pointer. Only their differences count: their mean changes as little as
// the range of the sliders allows.
function drag(view, { clientX, clientY }) {
  const { x, y, box } = axes(view);
  const third = y.value(clientY - box.top) / ROOT3;
  const second = x.value(clientX - box.left) - 0.5 * third;
  const [side, i] = view.grip;
  const { tau, noise } = view.now;
  const inside = [1 - second - third, second, third].map((share) => Math.max(share, EDGE)); // their sum moves only the middle
  const wanted = inside.map((share, k) => tau * Math.log(share) - noise * view.noise[side][3 * i + k]);
  const mean = (values) => (values[0] + values[1] + values[2]) / 3;
  const [low, high] = view.range;
  const middle = mean(view.now[SIDES[side]]) - mean(wanted);
  const shift = Math.min(Math.max(middle, low - Math.min(...wanted)), high - Math.max(...wanted));
  view.now[SIDES[side]] = wanted.map((value) => Math.min(Math.max(value + shift, low), high));
  tell(view, true);
  follow(view);
}

// Move the sliders; on release they snap to their steps.
function tell(view, held) {
  const name = SIDES[view.grip[0]];
  view.held = held;
  if (!held) view.grip = null;
  view.now[name].forEach((value, k) => {
    window.dispatchEvent(new CustomEvent(MOVE, { detail: { key: `${name}${k + 1}`, value, held } }));
  });
}
