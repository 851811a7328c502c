// Slider preview and training replay: draws soft states from tables that the live channel brings. States between two values
// are interpolated; each K has its own table. Figures of the server wait until the slider is released or the replay ends.

import { onTables, send } from "./channel.js";
import { show } from "./plot.js";
import { decode, labelsAt, mixed, statesAt } from "./colours.js";
import { drawStates } from "./states_canvas.js";

const SLIDER = "gdm:slider"; // see slider.js
const STATES = "gdm:states"; // states for the pose player (pages/lab/poses/player.js); null ends the preview
const APPROACH = ["pointerover", "pointerdown", "focusin"];
const REMIND_MS = 1000; // between two messages that the pointer is still near
const RUN = "gdm:run"; // see channel.js
const REPLAY = "replay"; // the slider over training steps, see scrubber.js
const WAIT_TIMES = 400; // times 25 ms to wait for the server's picture after a release
const REST_MS = 100; // after this rest the thumb's value is fitted first, since it may be released there
const PASSING_MS = 80; // a pointer on its way elsewhere crosses a slider in less
const NOTHING = { tables: [], source: "" };

// ---- following the thumb --------------------------------------------------------------------------------------
function build(parent) {
  const view = { parent, data: NOTHING, offers: {}, asked: {}, key: null, value: null, held: false, frame: 0 };
  view.over = new Set(); // plots with a canvas, also those that a run has removed
  const onSlider = (event) => {
    const { key, value, held, settled } = event.detail;
    if (held && !view.pressed) showAboveSheet(key);
    view.pressed = held;
    if (held && !(key in view.offers)) return; // no tables for this slider
    Object.assign(view, { key, value, held });
    clearTimeout(view.rest);
    if (held && view.pending === key && !follows(view)) view.rest = setTimeout(remind, REST_MS, view, key);
    if (!held) view.asked = {};
    if (held) {
      event.preventDefault(); // tells the scrubber that states are drawn
      askFor(view, key);
    }
    if (follows(view)) follow(view);
    else if (!held && settled) end(view); // back at its value: no run follows
  };
  view.listeners = { [SLIDER]: onSlider, [RUN]: () => view.held || endLater(view, WAIT_TIMES) };
  for (const name of APPROACH) view.listeners[name] = (event) => approach(view, event);
  for (const [name, listener] of Object.entries(view.listeners)) window.addEventListener(name, listener);
  onTables((message) => addTables(view, message));
  return view;
}

// Whether the states at the thumb are known.
const follows = (view) => view.held && view.key === view.data.slider && tableOf(view) !== undefined;

// Temperature, stickiness and replay have one table for all values, each K has its own.
const tableOf = ({ data: { tables }, value }) => (tables.length > 1 || tables[0]?.values.length === 1
  ? tables.find(({ values }) => values[0] === value) : tables[0]);

function findPlots({ data }) {
  return Object.entries(data.figures ?? {}).flatMap(([key, how]) => {
    const plot = document.querySelector(`.st-key-${key} .gdm-figure`)?.parentElement?.gdmView;
    return plot?.given ? [{ plot, how }] : [];
  });
}

// Draw the latest value, at most once per frame.
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
    let words = data.slider === REPLAY ? `training step ${Math.round(value)}` : "preview, release to fit"; // once
    for (const { plot, how } of findPlots(view)) {
      if (!drawStates(plot, how, soft, data.colours, words)) continue;
      words = "";
      plot.waits = () => follow(view); // after a change of its size
      view.over.add(plot);
    }
    const { player } = data.figures;
    if (!player) return;
    const { states, mixing, stride } = soft(player.part);
    // States of another K have no names yet.
    announce({ ...mixed(states, mixing), state: values.length > 1 && labelsAt(parts[player.bouts], values, value), stride });
  });
}

// On a phone the controls cover the lower half of the page: scroll to the picture that changes.
function showAboveSheet(key) {
  const sheet = railOf(key)?.closest("[data-testid=stSidebar][data-collapsed=false]")?.getBoundingClientRect();
  const figure = document.querySelector("[class*=st-key-gdm-panel-picture] .gdm-figure:not([data-still])");
  const box = figure?.getBoundingClientRect();
  if (box && sheet?.top > 0 && (box.top < 0 || box.bottom > sheet.top)) figure.scrollIntoView({ block: "start" });
}

const announce = (detail) => window.dispatchEvent(new CustomEvent(STATES, { detail }));

// After a release the preview stays until the server's picture is there; the earlier one would flash up.
function endLater(view, times) {
  if (view.held) return;
  const earlier = [...view.over].some(({ root, given }) => root.isConnected && given.data.options.state === "stale");
  if (earlier && times) setTimeout(() => endLater(view, times - 1), 25);
  else end(view);
}

// Show the figures of the server.
function end(view) {
  const plots = [...view.over];
  view.over.clear();
  announce(null);
  for (const plot of plots) {
    plot.waits = null;
    if (plot.root.isConnected) show(plot, plot.given);
  }
}

// ---- tables -----------------------------------------------------------------------------------------------------
const railOf = (key) => document.querySelector(`.gdm-slider[data-name="${key}"] .rail`);

function approach(view, { type, target }) {
  const key = Object.keys(view.offers).find((each) => railOf(each)?.contains(target));
  if (!key) return;
  if (type === "pointerover") setTimeout(() => railOf(key)?.matches(":hover") && askFor(view, key), PASSING_MS);
  else askFor(view, key);
}

// The server computes tables while it is told that the pointer is near.
function askFor(view, key) {
  const name = view.offers[key]; // "" while a fit runs, whose tables the server sends at its end
  if (name === undefined) return;
  const asked = `${name} ${view.held && view.key === key}`;
  if (view.asked[key] === asked) return;
  view.asked[key] = asked;
  remind(view, key);
}

function remind(view, key) {
  clearTimeout(view.timer);
  const held = view.held && view.key === key;
  send("near", { slider: key, held, value: held ? view.value : 0, source: view.data.source });
  view.timer = setTimeout(() => {
    const near = held || railOf(key)?.matches(":hover, :focus-within");
    if (view.pending === key && near && view.parent.isConnected) remind(view, key);
  }, REMIND_MS);
  view.pending = key;
}

// The first message of a fit says how to draw; later ones add tables.
function addTables(view, { slider, source, tables, how, more }) {
  view.pending = more ? slider : null;
  const first = "figures" in how;
  if (!tables.length || !(first || (source === view.data.source && slider === view.data.slider))) return;
  const before = first ? NOTHING : view.data;
  view.data = { ...before, ...how, slider, source, tables: [...before.tables, ...tables.map(decoded)], offer: view.offers[slider] };
  follow(view);
}

function decoded({ values, parts }) {
  const all = Object.entries(parts).map(([name, part]) => [name, { ...part, states: decode(part.states), labels: decode(part.labels) }]);
  return { values, parts: Object.fromEntries(all) };
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmPreview ??= build(parentElement));
  view.offers = data.offers;
  const outdated = view.offers[view.data.slider] !== view.data.offer; // of another fit or trial
  const replayed = view.held && view.key === REPLAY;
  if (outdated && replayed) end(view);
  if (outdated && (replayed || !view.held)) view.data = NOTHING;
  if (replayed) askFor(view, REPLAY);
  for (const key in view.offers) if (railOf(key)?.matches(":hover")) askFor(view, key); // the pointer stayed
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmPreview !== view) return;
  end(view);
  clearTimeout(view.timer);
  for (const [name, listener] of Object.entries(view.listeners)) window.removeEventListener(name, listener);
  delete parentElement.gdmPreview;
}
