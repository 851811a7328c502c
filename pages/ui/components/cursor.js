// One moment in all figures of a page: pointing at it in a figure, or playing a recording, marks it in the others. No script runs.

import { axesOf } from "./axes.js";
import { decode } from "./colours.js";

const CURSOR = "gdm:cursor";
const REACH = 24; // pixels from a path

// Mark moments of the figure's group in it, and announce those under the pointer; return a function that ends this.
export function linkCursor(view) {
  const heard = ({ detail }) => {
    if (detail.group !== view.group) return;
    const time = detail.from === view ? null : detail.time;
    if (detail.follow && time !== null) keepInView(view, time);
    mark(view, time);
  };
  window.addEventListener(CURSOR, heard);
  for (const name of ["pointermove", "pointerdown"]) view.plot.addEventListener(name, (event) => announce(view, timeAt(view, event)));
  view.plot.addEventListener("pointerleave", ({ pointerType }) => pointerType === "touch" || announce(view, null));
  return () => window.removeEventListener(CURSOR, heard);
}

function announce(view, time) {
  if (time === view.pointed) return;
  view.pointed = time;
  window.dispatchEvent(new CustomEvent(CURSOR, { detail: { group: view.group, time, from: view } }));
}

const isWithin = (value, { start, length }) => value >= start && value <= start + length;

// Return the time under the pointer, null if there is none.
function timeAt(view, { clientX, clientY }) {
  const spec = view.figure?.cursor;
  const frame = spec && axesOf(view.plot);
  if (!frame) return null;
  const box = view.plot.getBoundingClientRect();
  const [left, top] = [clientX - box.left, clientY - box.top];
  if (!isWithin(left, frame.x) || !frame.panels.some((panel) => isWithin(top, panel))) return null;
  if (spec.kind === "time") return frame.x.value(left);
  const [x, y] = pathOf(view.figure);
  let best = null, least = REACH ** 2;
  for (let i = 0; i < x.length; i++) {
    const distance = (frame.x.at(x[i]) - left) ** 2 + (frame.y.at(y[i]) - top) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best === null ? null : spec.start + spec.step * best;
}

function pathOf({ cursor, data }) {
  for (const name of ["x", "y"]) cursor[name] = decode(cursor[name] ?? data[0][name]);
  return [cursor.x, cursor.y];
}

// Scroll a zoomed figure to the moment.
function keepInView({ plot, figure, Plotly }, time) {
  const axis = axesOf(plot)?.x;
  if (figure.cursor?.kind !== "time" || !axis || axis.autorange) return;
  const whole = figure.layout.xaxis?.range ?? [-Infinity, Infinity];
  const moment = Math.min(Math.max(time, whole[0]), whole[1]);
  const [from, to] = axis.range;
  if (moment >= from && moment <= to) return;
  const start = moment - (to - from) / 4;
  Plotly.relayout(plot, { "xaxis.range": [start, start + to - from] });
}

function mark({ plot, cursor, figure }, time) {
  const spec = figure.cursor;
  const frame = time !== null && spec ? axesOf(plot) : null;
  if (!frame) {
    cursor.hidden = true;
    return;
  }
  const { x, y, panels } = frame;
  let left = x.at(time);
  // Stacked panels share the time axis: the line runs over all of them.
  let top = Math.min(...panels.map(({ start }) => start));
  let height = Math.max(...panels.map(({ start, length }) => start + length)) - top;
  if (spec.kind === "path") {
    const [across, up] = pathOf(figure);
    const i = Math.min(across.length - 1, Math.max(0, Math.round((time - spec.start) / spec.step)));
    [left, top, height] = [x.at(across[i]), y.at(up[i]), 0];
  }
  cursor.hidden = !(left >= x.start - 1 && left <= x.start + x.length + 1);
  cursor.className = `gdm-cursor gdm-cursor-${spec.kind}`;
  cursor.style.cssText = `left:${left}px;top:${top}px;height:${height}px`;
}
