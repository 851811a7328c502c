// The triangle of the Playground, drawn by the browser while a slider moves: the draws keep their noise, so that they
// glide. A dot can be taken hold of, by a pointer or by the arrow keys: the evidence follows, so that this very draw
// lies there. While something is held, dots are painted on a canvas: as marks of Plotly they cost four times as much.

import draw from "./plot.js";
import { axesOf } from "./axes.js";
import { decode } from "./colours.js";
import { MANY_NOISE, ROOT3, across, colourOf, draws, inside, picture, up } from "./gumbel.js";

const HEARD = "gdm:slider"; // see slider.js
const MOVE = "gdm:slider-move";
const RADIUS = 3; // of a dot, in pixels, as on the server
const NUDGE = 0.02; // of the triangle's width, for one press of an arrow key
const SETTLE_MS = 250; // a key held down repeats; where it comes to rest counts
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const REACH = { mouse: 10, touch: 20, pen: 14 }; // pixels from a dot within which it is taken hold of
const HOW =
  "Draws on a triangle of three states. Enter goes to the next dot; the arrow keys move it, and the evidence follows.";
const SIDES = ["logit", "other"];

// ---- the dots while something is held -------------------------------------------------------------------------
const marksOnly = ({ mode }) => mode === "markers";

// Everything but the dots, for Plotly; they lie on a canvas over it.
function ground(figure, sources, now) {
  return { ...figure, moving: true, data: picture(figure, sources, now).data.filter((trace) => !marksOnly(trace)) };
}

function paint(view) {
  const found = axes(view);
  if (!found || !view.shown) return;
  const { plot, x, y, box } = found;
  const canvas = (view.canvas ??= Object.assign(document.createElement("canvas"), { className: "gdm-dots" }));
  if (canvas.parentElement !== plot) plot.append(canvas);
  const scale = devicePixelRatio;
  const [width, height] = [box.width, box.height].map((v) => Math.round(v * scale));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.hidden = false;
  const pen = canvas.getContext("2d");
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, width, height);
  if (!view.held && !view.ring) return;
  pen.scale(scale, scale);
  pen.beginPath();
  pen.rect(x.start, y.start, x.length, y.length);
  pen.clip();
  const circle = (z, i, radius) => {
    pen.beginPath();
    pen.arc(x.at(across(z, i)), y.at(up(z, i)), radius, 0, 2 * Math.PI);
  };
  const { surface, muted, ink } = plot.gdm.tokens;
  const [full, hollow] = view.shown;
  if (view.held) {
    Object.assign(pen, { globalAlpha: 0.7, strokeStyle: muted, lineWidth: 1 });
    for (let i = 0; i < hollow.length / 3; i++) circle(hollow, i, RADIUS), pen.stroke();
    Object.assign(pen, { globalAlpha: 1, strokeStyle: surface, lineWidth: 0.5 });
    for (let i = 0; i < full.length / 3; i++) {
      pen.fillStyle = colourOf(full, i, view.sources.colours);
      circle(full, i, RADIUS), pen.fill(), pen.stroke();
    }
  }
  if (view.ring) {
    Object.assign(pen, { strokeStyle: ink, lineWidth: 2 });
    circle(view.shown[view.ring[0]], view.ring[1], RADIUS + 4), pen.stroke();
  }
}

function wipe(view) {
  if (view.canvas) view.canvas.hidden = true;
}

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
  if (same && !view.held) show(view, data.figure);
  else follow(view);
  reachable(view);
  return () => {
    view.finish?.();
    setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
  };
}

function show(view, figure) {
  view.shown = SIDES.map((_, side) => where(view, side));
  view.finish = draw({ ...view.given, data: { ...view.given.data, figure } });
  const { job } = view.parent.gdmView;
  job.then(() => job === view.parent.gdmView?.job && (view.held || view.ring ? paint(view) : wipe(view)));
}

// Soft states of the dots, full (0) or hollow (1).
function where({ now, sources }, side) {
  return draws(now[SIDES[side]], now.softness, now.noise, [sources.dots, sources.hollow][side]);
}

function begin(parent) {
  const view = { parent, now: null, grip: null, ring: null, held: false, frame: 0, timer: 0 };
  view.heard = (event) => {
    const { key, value, held } = event.detail;
    const [, name, index] = key.match(/^([a-z]+)(\d?)$/) ?? [];
    if (!(name in (view.now ?? {}))) return;
    if (view.grip) return;
    if (index) view.now[name][index - 1] = value;
    else view.now[name] = value;
    view.held = held;
    follow(view);
  };
  window.addEventListener(HEARD, view.heard);
  parent.addEventListener("pointerdown", (event) => take(view, event), true);
  parent.addEventListener("pointermove", (event) => hover(view, event));
  parent.addEventListener("keydown", (event) => press(view, event));
  parent.addEventListener("focusin", ({ target }) => target.matches(".gdm-plot:focus-visible") && ring(view, view.last ?? [0, 0]));
  parent.addEventListener("focusout", () => leave(view));
  // Where a finger lands on a dot, the page must not scroll away under it.
  parent.addEventListener("touchstart", (event) => view.grip && event.cancelable && event.preventDefault(), { passive: false });
  return view;
}

function tearDown(view, parent) {
  if (parent.gdmSimplex !== view) return;
  leave(view);
  window.removeEventListener(HEARD, view.heard);
  delete parent.gdmSimplex;
}

// The picture of the latest settings, once a frame at most and never two at a time.
function follow(view) {
  view.again = true;
  if (view.frame) return;
  view.frame = requestAnimationFrame(async () => {
    view.again = false;
    show(view, (view.held ? ground : picture)(view.given.data.figure, view.sources, view.now));
    await view.parent.gdmView.job;
    view.frame = 0;
    if (view.again) follow(view);
  });
}

function axes(view) {
  const plot = view.parent.querySelector(".gdm-plot");
  const frame = axesOf(plot);
  return frame && { plot, x: frame.x, y: frame.y, box: plot.getBoundingClientRect() };
}

// ---- with keys: Enter goes from dot to dot, arrows move it ----------------------------------------------------
function reachable(view) {
  const plot = view.parent.querySelector(".gdm-plot");
  if (!plot || plot.tabIndex === 0) return;
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-roledescription", "triangle of draws");
  plot.setAttribute("aria-label", HOW);
  view.said = Object.assign(document.createElement("p"), { className: "gdm-sr" });
  view.said.setAttribute("role", "status");
  plot.after(view.said);
}

function ring(view, which) {
  view.ring = view.last = which;
  paint(view);
  describe(view);
}

function leave(view) {
  if (!view.ring) return;
  if (view.timer) rest(view);
  view.ring = null;
  view.held ? paint(view) : wipe(view);
}

function describe(view) {
  const [side, i] = view.last;
  const shares = [0, 1, 2].map((k) => `S${k + 1} ${Math.round(100 * view.shown[side][3 * i + k])} %`).join(", ");
  const evidence = view.now[SIDES[side]].map((value) => value.toFixed(2)).join(", ");
  view.said.textContent = `${side ? "Hollow dot" : "Dot"} ${i + 1}: ${shares}. Evidence ${evidence}.`;
}

function press(view, event) {
  if (!view.ring || !event.target.matches(".gdm-plot")) return;
  const [side, i] = view.ring;
  const arrow = ARROWS[event.key];
  if (event.key === "Enter") {
    const last = view.shown[side].length / 3 - 1;
    ring(view, i < last ? [side, i + 1] : [1 - side, 0]);
  } else if (arrow) {
    const z = where(view, side); // the next frame may still show the press before
    view.grip = view.ring;
    view.held = true;
    move(view, across(z, i) + NUDGE * arrow[0], up(z, i) + NUDGE * arrow[1]);
    clearTimeout(view.timer);
    view.timer = setTimeout(() => rest(view), SETTLE_MS);
  } else return;
  event.preventDefault();
}

function rest(view) {
  clearTimeout(view.timer);
  view.timer = 0;
  view.held = false;
  tell(view, false);
  follow(view);
  view.shown = SIDES.map((_, side) => where(view, side));
  describe(view);
}

// [which side, which draw] under the pointer.
function nearest(view, event) {
  const found = axes(view);
  if (!found || !view.shown) return null;
  const { x, y, box } = found;
  let best = null, least = REACH[event.pointerType] ?? REACH.mouse;
  view.shown.forEach((z, side) => {
    for (let i = 0; i < z.length / 3; i++) {
      const dx = box.left + x.at(across(z, i)) - event.clientX;
      const dy = box.top + y.at(up(z, i)) - event.clientY;
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
  view.held = true;
  event.preventDefault();
  event.stopPropagation();
  const move = (moved) => moved.pointerId === event.pointerId && drag(view, moved);
  const drop = (lifted) => {
    if (lifted.pointerId !== event.pointerId) return;
    for (const name of ["pointerup", "pointercancel"]) window.removeEventListener(name, drop);
    window.removeEventListener("pointermove", move);
    view.held = false;
    tell(view, false);
    follow(view);
  };
  window.addEventListener("pointermove", move);
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, drop);
}

function drag(view, event) {
  const { x, y, box } = axes(view);
  move(view, x.value(event.clientX - box.left), y.value(event.clientY - box.top));
}

// The evidence under which the draw that is held, with its own noise, lies at (x, y). Only differences count: the middle
// of the three stays where it was, or moves as far as the range of the sliders asks.
function move(view, x, y) {
  const top = y / ROOT3;
  const second = x - 0.5 * top;
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
