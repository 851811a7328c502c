// Slider preview and training replay: draws soft states from tables that the live channel brings. States between two values
// are interpolated; each K has its own table. Figures of the server wait until the slider is released or the replay ends.

import { hearTables, say as tell } from "./channel.js";
import draw from "./plot.js";
import { decode, labelsAt, mixed, statesAt } from "./colours.js";
import { drawStates } from "./states_canvas.js";

const HEARD = "gdm:slider"; // see slider.js
const STATES = "gdm:states"; // states for the pose player (pages/lab/poses/player.js); null ends the preview
const COMING = ["pointerover", "pointerdown", "focusin"];
const STILL_MS = 1000; // between two messages that the pointer is still there
const RUN = "gdm:run"; // see channel.js
const REPLAY = "replay"; // the slider over training steps, see scrubber.js
const GIVE_WAY = 100; // tenths of a second to wait for the server's picture after a release
const PASSING_MS = 80; // a pointer on its way elsewhere crosses a slider in less

const NOTHING = { tables: [], of: "" };

// ---- following the thumb --------------------------------------------------------------------------------------
function begin(parent) {
  const view = { parent, data: NOTHING, offers: {}, asked: {}, key: null, value: null, held: false, frame: 0 };
  view.over = new Set(); // plots that are drawn over, also those that a run has removed
  view.heard = (event) => {
    const { key, value, held } = event.detail;
    if (held && !(key in view.offers)) return; // no tables for this slider
    Object.assign(view, { key, value, held });
    if (!held) view.asked = {};
    if (held) {
      event.preventDefault(); // the browser draws: a replay learns that there are states
      askFor(view, key);
    }
    if (follows(view)) follow(view);
    else if (!held && event.detail.stands) leave(view); // back at its value: no run follows
  };
  view.ran = () => view.held || giveWay(view, GIVE_WAY);
  window.addEventListener(RUN, view.ran);
  hearTables((message) => take(view, message));
  window.addEventListener(HEARD, view.heard);
  view.near = (event) => comeNear(view, event);
  for (const name of COMING) window.addEventListener(name, view.near);
  return view;
}

const isHeld = ({ data, key, held }) => held && key === data.slider;

// Whether the states at the thumb are known.
const follows = (view) => isHeld(view) && tableOf(view) !== undefined;

// Temperature, stickiness and replay have one table for all values, each K has its own.
const tableOf = ({ data: { tables }, value }) => (tables.length > 1 || tables[0]?.values.length === 1
  ? tables.find(({ values }) => values[0] === value) : tables[0]);

function places({ data }) {
  return Object.entries(data.figures ?? {}).flatMap(([key, how]) => {
    const plot = document.querySelector(`.st-key-${key} .gdm-figure`)?.parentElement?.gdmView;
    return plot?.given ? [{ plot, how }] : [];
  });
}

// Draws the latest value, at most once per frame.
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
      // A figure that changes its size is drawn over again.
      const badge = data.slider === REPLAY && how.badge ? `training step ${Math.round(value)}` : how.badge;
      if (!drawStates(plot, { ...how, badge }, soft, data.colours)) continue;
      plot.waits = () => follow(view);
      view.over.add(plot);
    }
    const { player } = data.figures;
    if (!player) return;
    const { states, mixing, stride } = soft(player.part);
    // States of another K have no names yet.
    say({ ...mixed(states, mixing), state: values.length > 1 && labelsAt(parts[player.bouts], values, value), stride });
  });
}

const say = (detail) => window.dispatchEvent(new CustomEvent(STATES, { detail }));

// After a release the preview stays until the server's picture is there, or the earlier one would flash up.
function giveWay(view, looks) {
  if (view.held) return;
  const earlier = [...view.over].some(({ root, given }) => root.isConnected && given.data.options.state === "stale");
  if (earlier && looks) setTimeout(() => giveWay(view, looks - 1), 100);
  else leave(view);
}

// Shows what the server has drawn meanwhile.
function leave(view) {
  const left = [...view.over];
  view.over.clear();
  say(null);
  for (const plot of left) {
    plot.waits = null;
    if (plot.root.isConnected) draw(plot.given);
  }
}

// ---- the pointer comes near -------------------------------------------------------------------------------------
const railOf = (key) => document.querySelector(`.gdm-slider[data-name="${key}"] .rail`);

function comeNear(view, { type, target }) {
  const key = Object.keys(view.offers).find((each) => railOf(each)?.contains(target));
  if (!key) return;
  if (type === "pointerover") setTimeout(() => railOf(key)?.matches(":hover") && askFor(view, key), PASSING_MS);
  else askFor(view, key);
}

// The server computes tables while it is told that the pointer is near.
function askFor(view, key) {
  const name = view.offers[key];
  if (!name) return;
  const held = view.held && view.key === key;
  const asked = `${name} ${held}`;
  if (view.asked[key] === asked) return;
  view.asked[key] = asked;
  goOn(view, key);
}

function goOn(view, key) {
  clearTimeout(view.timer);
  const held = view.held && view.key === key;
  tell("near", { slider: key, held, value: held ? view.value : 0, of: view.data.of });
  view.timer = setTimeout(() => {
    const there = held || railOf(key)?.matches(":hover, :focus-within");
    if (view.pending === key && there && view.parent.isConnected) goOn(view, key);
  }, STILL_MS);
  view.pending = key;
}

// Takes in tables. The first message of a fit says how to draw; later ones add to it.
function take(view, { slider, of, tables, how, more }) {
  view.pending = more ? slider : null;
  const first = "figures" in how;
  if (!tables.length || !(first || (of === view.data.of && slider === view.data.slider))) return;
  const before = first ? NOTHING : view.data;
  view.data = { ...before, ...how, slider, of, tables: [...before.tables, ...decoded(tables)], offer: view.offers[slider] };
  follow(view);
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmHeld ??= begin(parentElement));
  view.offers = data.offers;
  const outdated = view.offers[view.data.slider] !== view.data.offer; // of another fit or trial
  const replayed = view.held && view.key === REPLAY;
  if (outdated && replayed) leave(view);
  if (outdated && (replayed || !view.held)) view.data = NOTHING;
  if (replayed) askFor(view, REPLAY);
  for (const key in view.offers) if (railOf(key)?.matches(":hover")) askFor(view, key); // the pointer stayed
  return () => setTimeout(() => parentElement.isConnected || end(view, parentElement));
}

function decoded(tables) {
  const plain = (part) => ({ ...part, states: part.states && decode(part.states), labels: part.labels && decode(part.labels) });
  const all = (parts) => Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, plain(part)]));
  return tables.map(({ values, parts }) => ({ values, parts: all(parts) }));
}

function end(view, parentElement) {
  if (parentElement.gdmHeld !== view) return;
  leave(view);
  clearTimeout(view.timer);
  window.removeEventListener(HEARD, view.heard);
  window.removeEventListener(RUN, view.ran);
  for (const name of COMING) window.removeEventListener(name, view.near);
  delete parentElement.gdmHeld;
}
