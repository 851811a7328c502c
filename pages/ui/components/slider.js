// A slider that announces its value while it is dragged (event "gdm:slider"). The page gets the value on release; the page of a
// `live` slider also gets it every 0.3 s before.

const HEARD = "gdm:slider";
const MOVE = "gdm:slider-move"; // another part of the page moves a slider
const SETTLE_MS = 250; // a key held down repeats; its last value counts
const LIVE_MS = 300;
let count = 0;

function build(parent) {
  const id = `gdm-slider-${(count += 1)}`;
  const root = document.createElement("div");
  root.className = "gdm-slider";
  root.innerHTML = `<div class="head"><label for="${id}"></label>
      <button type="button" hidden aria-describedby="${id}-help"><svg viewBox="0 0 24 24" aria-hidden="true">
        <circle cx="12" cy="12" r="10"/><path d="M9.1 9a3 3 0 0 1 5.8 1c0 2-3 3-3 3M12 17h.01"/></svg></button></div>
    <div class="rail"><output for="${id}" aria-hidden="true"></output><input type="range" id="${id}"></div>
    <div class="ends" aria-hidden="true"><span></span><span></span></div><div class="chips"></div>
    <p class="help" role="tooltip" id="${id}-help"></p>`;
  parent.replaceChildren(root);
  const find = (name) => root.querySelector(name);
  const view = { root, said: 0, held: false, loose: false, timer: 0, later: 0, value: null, settled: null };
  Object.assign(view, { label: find("label"), button: find("button"), bubble: find("output"), input: find("input") });
  Object.assign(view, { ends: root.querySelectorAll(".ends span"), help: find(".help") });
  view.button.onkeydown = ({ key }) => key === "Escape" && view.button.blur(); // hides the help (styles.css)
  listen(view);
  return view;
}

function listen(view) {
  const { input } = view;
  const release = () => {
    if (!view.held) return;
    view.held = false;
    settle(view);
  };
  input.addEventListener("pointerdown", ({ button }) => {
    if (button !== 0 || input.disabled) return;
    view.held = true;
    // A finger may have left the slider by the time it lets go.
    for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, release, { once: true });
  });
  input.addEventListener("input", () => {
    move(view, Number(input.value));
    if (!view.held) settleSoon(view); // a key, or assistive technology
  });
  input.addEventListener("blur", () => {
    release();
    if (view.timer) settle(view);
  });
  view.moved = ({ detail: { key, value, held } }) => {
    if (key !== view.key || input.disabled) return;
    view.held = held;
    input.value = value; // snaps to a step within the range
    held ? move(view, Number(input.value)) : show(view, Number(input.value));
    if (!held) settle(view);
  };
  window.addEventListener(MOVE, view.moved);
}

function move(view, value) {
  if (value === view.value) return;
  show(view, value);
  announce(view, true);
  if (!view.live || !view.held) return;
  view.later ||= setTimeout(() => {
    view.later = 0;
    if (view.held) send(view, true);
  }, LIVE_MS);
}

// `settled`: whether the page has this value.
function announce(view, held) {
  const { key, value, settled, live } = view;
  const detail = { key, value, held, settled: value === settled, live };
  window.dispatchEvent(new CustomEvent(HEARD, { detail }));
}

function send(view, held) {
  view.said = count += 1;
  view.loose = held;
  view.tell({ value: view.value, held, number: view.said });
}

function settleSoon(view) {
  clearTimeout(view.timer);
  view.timer = setTimeout(() => settle(view), SETTLE_MS);
}

// A value sent while dragging has to be confirmed, even if the thumb returned.
function settle(view) {
  clearTimeout(view.timer);
  view.timer = 0;
  announce(view, false);
  if (view.value === view.settled && !view.loose) return;
  view.settled = view.value;
  send(view, false);
}

function show(view, value) {
  const { input, scale } = view;
  view.value = value;
  input.value = value;
  view.bubble.textContent = words(value, scale);
  input.setAttribute("aria-valuetext", view.bubble.textContent);
  view.root.style.setProperty("--at", (value - scale.min) / (scale.max - scale.min));
}

const words = (value, { digits }) => value.toFixed(digits);

function showChips(view, { label, disabled, chips }) {
  const row = view.root.querySelector(".chips");
  row.hidden = !chips.length;
  if (row.children.length !== chips.length) row.replaceChildren(...chips.map(() => document.createElement("button")));
  chips.forEach(([name, value], i) => {
    const chip = Object.assign(row.children[i], { type: "button", disabled, textContent: `${name} ${value}` });
    chip.setAttribute("aria-label", `${label}: ${name} ${value}`);
    chip.onclick = () => {
      move(view, value);
      settle(view);
    };
  });
}

export default function ({ data, parentElement, setStateValue }) {
  const view = (parentElement.gdmSlider ??= build(parentElement));
  const { key, label, help, disabled, live, scale, value, heard } = data;
  Object.assign(view, { key, live, scale, tell: (message) => setStateValue("moved", message) });
  const { input, button, root } = view;
  const app = document.querySelector(".stApp"); // a popover is outside of it and does not inherit its theme
  if (app && !app.contains(parentElement)) root.style.colorScheme = getComputedStyle(app).colorScheme;
  root.dataset.name = key;
  view.label.textContent = label;
  root.toggleAttribute("data-disabled", disabled);
  view.help.textContent = help;
  button.hidden = !help;
  button.setAttribute("aria-label", `About ${label}`);
  help ? input.setAttribute("aria-describedby", view.help.id) : input.removeAttribute("aria-describedby");
  Object.assign(input, { min: scale.min, max: scale.max, step: scale.step, disabled });
  [scale.min, scale.max].forEach((end, i) => (view.ends[i].textContent = words(end, scale)));
  // While it is dragged, and until the server has the last message, the slider's own value counts.
  const ours = view.held || view.timer || heard < view.said;
  const moved = !ours && view.value !== null && value !== view.value; // by the page: a link or a button
  if (!ours) view.settled = value;
  show(view, ours ? view.value : value);
  showChips(view, data);
  if (moved) announce(view, false);
  // Streamlit also calls this when newer data arrive while the slider stays.
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmSlider !== view) return;
  if (view.timer || view.held) settle(view); // removed while dragged: no release will follow
  window.removeEventListener(MOVE, view.moved);
  delete parentElement.gdmSlider;
}
