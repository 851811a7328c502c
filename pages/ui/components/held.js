// Pictures of soft states while the thumb of a slider is held: drawn by the browser from the states at some values of the
// setting, which the server sends once, and in straight lines between them; for K from the fits that are there, of which more
// come while it is held. What the server draws meanwhile is older than the thumb and waits; the slider
// let go, its pictures count again.

import draw from "../gdm.plot/plot.js"; // under the address at which Streamlit loads it, so that it is one module
import { labelsAt, mixed, statesAt } from "../gdm.plot/colours.js";
import { decode, overlay } from "../gdm.plot/overlay.js";

const HEARD = "gdm:slider"; // see slider.js
const STATES = "gdm:states"; // what the pose player (pages/recording/player.js) shows meanwhile; null: its own again
const COMING = ["pointerover", "pointerdown", "focusin"];
const POLL_MS = 300;
const PASSING_MS = 80; // a mouse on its way elsewhere crosses a slider in less

const NOTHING = { tables: [] };

// ---- following the thumb --------------------------------------------------------------------------------------
function begin(parent) {
  const view = { parent, data: NOTHING, offers: {}, asked: {}, key: null, value: null, held: false, over: true, frame: 0 };
  view.heard = (event) => {
    const { key, value, held } = event.detail;
    Object.assign(view, { key, value, held });
    if (follows(view)) {
      event.preventDefault(); // the slider need not ask the server for each picture
      follow(view);
    } else if (isHeld(view)) stepAside(view);
    else if (view.over) leave(view);
  };
  window.addEventListener(HEARD, view.heard);
  view.near = (event) => comeNear(view, event);
  for (const name of COMING) window.addEventListener(name, view.near);
  return view;
}

const isHeld = ({ data, key, held }) => held && key === data.slider;

// Whether the states where the thumb stands are here.
const follows = (view) => isHeld(view) && tableOf(view) !== undefined;

// Softness and stickiness have one table for all values, each K has its own.
const tableOf = ({ data: { tables }, value }) => (tables.length > 1 || tables[0]?.values.length === 1
  ? tables.find(({ values }) => values[0] === value) : tables[0]);

function places({ data }) {
  return Object.entries(data.figures ?? {}).flatMap(([key, how]) => {
    const plot = document.querySelector(`.st-key-${key} .gdm-figure`)?.parentElement?.gdmView;
    return plot?.given ? [{ plot, how }] : [];
  });
}

// The picture of the latest value, once a frame at most.
function follow(view) {
  view.frame ||= requestAnimationFrame(() => {
    view.frame = 0;
    if (!follows(view)) return;
    const { data, value } = view;
    const { values, parts } = tableOf(view);
    const known = {};
    const soft = (name) => (known[name] ??= {
      states: statesAt(parts[name], values, value),
      mixing: { ...data.mixing, lab: data.mixing.lab.slice(0, parts[name].shape[2]) },
      stride: parts[name].stride,
    });
    for (const { plot, how } of places(view)) {
      // A figure that changes its size is drawn over anew. What the server draws meanwhile waits.
      if (overlay(plot, how, soft, data.colours)) plot.waits = () => follow(view);
    }
    const { player } = data.figures;
    if (!player) return;
    const { states, mixing, stride } = soft(player.part);
    // Of another number of states, nobody has said yet what they are called.
    say({ ...mixed(states, mixing), state: values.length > 1 && labelsAt(parts[player.bouts], values, value), stride });
  });
}

const say = (detail) => window.dispatchEvent(new CustomEvent(STATES, { detail }));

// Here the server draws. Until its next picture is there, ours stays.
function stepAside(view) {
  for (const { plot } of places(view)) plot.waits = null;
}

// What the server drew meanwhile has waited. It takes the place of what was drawn here once it is there.
function leave(view) {
  const left = places(view).filter(({ plot }) => plot.waits);
  view.data = NOTHING;
  say(null);
  for (const { plot } of left) {
    plot.waits = null;
    draw(plot.given);
  }
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

// More is being worked out: asked for again and again while the hand is there.
function poll(view) {
  clearTimeout(view.timer);
  if (!view.pending || !view.parent.isConnected) return;
  view.timer = setTimeout(() => {
    if (railOf(view.pending)?.matches(":hover, :focus-within") || isHeld(view)) view.send("near", view.pending);
    poll(view);
  }, POLL_MS);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = (parentElement.gdmHeld ??= begin(parentElement));
  Object.assign(view, { offers: data.offers, pending: data.pending, send: setTriggerValue });
  for (const key in view.offers) if (railOf(key)?.matches(":hover")) askFor(view, key); // a hand that stayed
  view.over = !data.slider; // as far as the server has heard
  if (data.slider) {
    if (data.slider !== view.data.slider) leave(view);
    if (data.name !== view.data.name) view.data = { ...data, ...decoded(data) };
    follow(view);
  } else if (!isHeld(view)) leave(view);
  poll(view);
  return () => setTimeout(() => parentElement.isConnected || end(view, parentElement));
}

function decoded({ tables }) {
  const plain = (part) => ({ ...part, states: part.states && decode(part.states), labels: part.labels && decode(part.labels) });
  const all = (parts) => Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, plain(part)]));
  return { tables: tables.map(({ values, parts }) => ({ values, parts: all(parts) })) };
}

function end(view, parentElement) {
  if (parentElement.gdmHeld !== view) return;
  leave(view);
  window.removeEventListener(HEARD, view.heard);
  for (const name of COMING) window.removeEventListener(name, view.near);
  delete parentElement.gdmHeld;
}
