// Training replay: moves through the training steps of a finished fit; slider_preview.js draws their states. While a fit runs,
// the thumb shows its latest snapshot.

import { onMessage } from "./channel.js";

const HEARD = "gdm:slider"; // see slider.js
const CURSOR = "gdm:cursor"; // see cursor.js
const KEY = "replay"; // of the slider events, and the group of the ELBO curve's cursor
const PLAY_MS = 5000;
const N_STEPS = 50; // of the arrow keys, from the first step of training to the last
const STILLS = 10; // pictures of a replay for visitors who want less motion
const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const NO_STATES = "Replay shows smoothed states of training trials.";

function build(parent) {
  const root = document.createElement("div");
  root.className = "gdm-slider gdm-scrubber";
  root.dataset.name = KEY;
  root.innerHTML = `<div class="rail"><button type="button"><svg viewBox="0 0 24 24" aria-hidden="true"><path/></svg></button>
    <input type="range" min="0" step="1" aria-label="Training step"></div><p class="gdm-quiet"></p>`;
  parent.replaceChildren(root);
  const [button, input, label, icon] = ["button", "input", "p", "path"].map((name) => root.querySelector(name));
  const view = { root, button, input, label, icon, at: 0, total: 0, away: false, playing: false, fit: null };
  button.onclick = () => (view.playing ? pause(view) : play(view));
  root.onkeydown = (event) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!way || input.disabled) return;
    event.preventDefault();
    view.playing = false;
    move(view, Math.min(view.total, Math.max(0, Math.round(view.at) + way * Math.max(1, Math.round(view.total / N_STEPS)))));
  };
  input.oninput = () => {
    view.playing = false;
    move(view, Number(input.value));
  };
  // Dragging another slider ends the replay.
  view.heard = ({ detail }) => detail.key !== KEY && detail.held && toEnd(view);
  window.addEventListener(HEARD, view.heard, true);
  return view;
}

function play(view) {
  const from = view.at < view.total ? view.at : 0;
  const began = performance.now();
  view.playing = true;
  const tick = () => {
    if (!view.playing) return;
    const share = (performance.now() - began) / PLAY_MS;
    const at = Math.min(view.total, from + (CALM.matches ? Math.floor(share * STILLS) / STILLS : share) * view.total);
    if (at !== view.at) move(view, at);
    if (view.at < view.total) requestAnimationFrame(tick);
    else pause(view);
  };
  tick();
}

function pause(view) {
  view.playing = false;
  show(view);
}

function toEnd(view) {
  if (view.away) move(view, view.total);
  pause(view);
}

function move(view, at) {
  const ends = at >= view.total;
  Object.assign(view, { at, away: !ends });
  const detail = { key: KEY, value: at, held: !ends, settled: ends };
  const drawn = !window.dispatchEvent(new CustomEvent(HEARD, { detail, cancelable: true }));
  view.note = ends || drawn ? "" : NO_STATES;
  window.dispatchEvent(new CustomEvent(CURSOR, { detail: { group: KEY, time: ends ? null : at, from: view } }));
  show(view);
}

function show({ button, input, label, icon, at, total, playing, running, note }) {
  const [step, last] = [at, total].map((each) => Math.round(each).toLocaleString("en"));
  Object.assign(input, { max: total, value: at, disabled: running });
  button.disabled = running;
  button.setAttribute("aria-label", playing ? "Pause the replay" : "Replay training");
  icon.setAttribute("d", playing ? "M6 5h4v14H6zM14 5h4v14h-4z" : "M7 4v16l13-8z");
  input.setAttribute("aria-valuetext", `step ${step} of ${last}`);
  input.style.setProperty("--at", total ? at / total : 0);
  label.textContent = note || `Step ${step} of ${last}`;
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmScrubber ??= build(parentElement));
  view.unsubscribe ??= onMessage(data.options.key, (part) => take(view, part));
  if (data !== view.scripted) take(view, data); // Streamlit calls again with the same data, as at a change of theme
  view.scripted = data;
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function take(view, { fit, step: at, total }) {
  const running = at < total || !fit;
  if (fit !== view.fit || running) {
    toEnd(view);
    Object.assign(view, { fit, at, total, running, note: "" });
  }
  view.root.hidden = !total;
  show(view);
}

function tearDown(view, parentElement) {
  if (parentElement.gdmScrubber !== view) return;
  toEnd(view);
  view.unsubscribe();
  window.removeEventListener(HEARD, view.heard, true);
  delete parentElement.gdmScrubber;
}
