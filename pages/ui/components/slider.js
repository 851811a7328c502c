// A slider that speaks while it is held. One request of the page is under way at a time: the next value goes out when
// the server has answered the last one, and it is the latest there is. Where the browser draws the picture by itself, the
// page is not asked before the release. A release goes out at once.

const HEARD = "gdm:slider"; // a slider moved: what draws by itself follows it, and says so by preventing the default
const MOVE = "gdm:slider-move"; // another part of the page moves a slider
const SETTLE_MS = 250; // a key held down repeats; where it comes to rest counts
const PATIENCE_MS = 10_000; // for an answer that a cut connection or an error on the page has swallowed
const line = { count: 0, away: new Map(), waiting: new Map(), timer: 0, spoke: -Infinity, later: 0 };

function speak() {
  if (line.away.size || !line.waiting.size) return;
  clearTimeout(line.later);
  const rest = line.spoke + Math.min(...[...line.waiting.values()].map(({ every }) => every)) - performance.now();
  if (rest > 0) {
    line.later = setTimeout(speak, rest);
    return;
  }
  line.spoke = performance.now();
  for (const [key, message] of line.waiting) {
    line.away.set(key, message.number);
    message.send(message.number);
  }
  line.waiting.clear();
  line.timer = setTimeout(hangUp, PATIENCE_MS);
}

function hangUp() {
  clearTimeout(line.timer);
  line.away.clear();
  speak();
}

function answered(numbers) {
  if (!line.away.size) return;
  for (const [key, number] of line.away) if (!(numbers[key] >= number)) return;
  // The browser draws what came before it asks for more.
  requestAnimationFrame(() => setTimeout(hangUp));
}

function say(view, held, every = 0) {
  const { key, value, send } = view;
  view.said = line.count += 1;
  const message = { number: view.said, every, send: (number) => send("moved", { value, held, number }) };
  line.waiting.set(key, message);
  if (!held) {
    clearTimeout(line.timer);
    line.away.clear(); // what is under way is overtaken
  }
  queueMicrotask(speak); // sliders that move together speak together
}

// ---- the slider itself ----------------------------------------------------------------------------------------
let made = 0;

function build(parent) {
  const id = `gdm-slider-${(made += 1)}`;
  const root = document.createElement("div");
  root.className = "gdm-slider";
  root.innerHTML = `<div class="head"><label for="${id}"></label>
      <button type="button" hidden aria-expanded="false" aria-controls="${id}-help"><svg viewBox="0 0 24 24" aria-hidden="true">
        <circle cx="12" cy="12" r="10"/><path d="M9.1 9a3 3 0 0 1 5.8 1c0 2-3 3-3 3M12 17h.01"/></svg></button></div>
    <div class="rail"><output for="${id}" aria-hidden="true"></output><input type="range" id="${id}"></div>
    <div class="ends" aria-hidden="true"><span></span><span></span></div>
    <p class="help" role="tooltip" id="${id}-help" popover="manual"></p>`;
  parent.replaceChildren(root);
  const find = (name) => root.querySelector(name);
  const view = { root, said: 0, held: false, loose: false, timer: 0, value: null, settled: null };
  Object.assign(view, { label: find("label"), button: find("button"), bubble: find("output"), input: find("input") });
  Object.assign(view, { ends: root.querySelectorAll(".ends span"), help: find(".help") });
  listen(view);
  explain(view);
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
    move(view, Number(input.value), true);
    if (!view.held) settleSoon(view); // a key, or an aid that sets values
  });
  input.addEventListener("blur", () => {
    release();
    if (view.timer) settle(view);
  });
  view.moved = ({ detail: { key, value, held } }) => {
    if (key !== view.key || input.disabled) return;
    view.held = held;
    input.value = value; // snaps to a step within the range
    move(view, Number(input.value), held);
    if (!held) settle(view);
  };
  window.addEventListener(MOVE, view.moved);
}

function move(view, value, tell) {
  const moved = value !== view.value;
  show(view, value);
  if (!moved || !tell) return;
  const event = new CustomEvent(HEARD, { detail: told(view, true), cancelable: true });
  const followed = !window.dispatchEvent(event);
  if (!view.live || followed) return;
  view.loose = true;
  say(view, true, event.detail.every); // what draws a part of the page by itself says how seldom the rest need follow
}

// What others are told: where it stands, in words too, and whether the page stands there as well.
function told({ key, value, settled, scale, label }, held) {
  return { key, value, held, said: `${label.textContent} = ${words(value, scale)}`, stands: value === settled };
}

function settleSoon(view) {
  clearTimeout(view.timer);
  view.timer = setTimeout(() => settle(view), SETTLE_MS);
}

// What was said while it was held has to be confirmed, also where the thumb returned to its place.
function settle(view) {
  clearTimeout(view.timer);
  view.timer = 0;
  window.dispatchEvent(new CustomEvent(HEARD, { detail: told(view, false) }));
  if (view.value === view.settled && !view.loose) return;
  view.loose = false;
  view.settled = view.value;
  say(view, false);
}

function show(view, value) {
  const { input, scale } = view;
  view.value = value;
  input.value = value;
  const text = words(value, scale);
  view.bubble.textContent = text;
  input.setAttribute("aria-valuetext", text);
  view.root.style.setProperty("--at", (value - scale.min) / (scale.max - scale.min));
}

function words(value, { before, after, digits }) {
  return before + value.toFixed(digits) + after;
}

// ---- help, under a mouse, a finger and a key ------------------------------------------------------------------
function explain(view) {
  const { button, help } = view;
  const open = (wanted) => {
    if (help.matches(":popover-open") === wanted) return;
    help.togglePopover(wanted);
    button.setAttribute("aria-expanded", wanted);
    if (!wanted) return;
    const { left, right, bottom, top } = button.getBoundingClientRect();
    const { width, height } = help.getBoundingClientRect();
    const beside = right + width + 16 < innerWidth; // where there is room it covers no other control
    const x = beside ? right + 8 : Math.max(8, Math.min((left + right - width) / 2, innerWidth - width - 8));
    const above = top > height + 12 ? top - height - 6 : bottom + 6;
    const y = beside ? Math.max(8, (top + bottom - height) / 2) : above;
    help.style.cssText = `left:${x}px;top:${y}px`;
  };
  button.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && open(true));
  button.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && open(false));
  button.addEventListener("focus", () => button.matches(":focus-visible") && open(true));
  button.addEventListener("blur", () => open(false));
  button.addEventListener("click", ({ pointerType }) => open(pointerType === "mouse" || !help.matches(":popover-open")));
  button.addEventListener("keydown", (event) => {
    if (event.key === "Escape") open(false);
  });
}

export default function ({ data, parentElement, setTriggerValue }) {
  if (data.answered) {
    answered(data.answered);
    return undefined;
  }
  const view = (parentElement.gdmSlider ??= build(parentElement));
  const { key, label, help, disabled, live, scale, value, heard } = data;
  Object.assign(view, { key, live, scale, heard, send: (name, message) => setTriggerValue(name, message) });
  const { input, button } = view;
  const app = document.querySelector(".stApp"); // whose theme a popover, which lies outside of it, does not inherit
  if (app && !app.contains(parentElement)) view.root.style.colorScheme = getComputedStyle(app).colorScheme;
  view.label.textContent = label;
  view.root.toggleAttribute("data-disabled", disabled);
  view.help.textContent = help;
  button.hidden = !help;
  button.setAttribute("aria-label", `About ${label}`);
  help ? input.setAttribute("aria-describedby", view.help.id) : input.removeAttribute("aria-describedby");
  Object.assign(input, { min: scale.min, max: scale.max, step: scale.step, disabled });
  [scale.min, scale.max].forEach((end, i) => (view.ends[i].textContent = words(end, scale)));
  // Under a finger, and until the server has heard the last word, the slider knows better where it stands.
  const ours = view.held || view.timer || heard < view.said;
  const moved = !ours && view.value !== null && value !== view.value; // by the page: a link, Back, a button
  if (!ours) view.settled = value;
  show(view, ours ? view.value : value);
  if (moved) window.dispatchEvent(new CustomEvent(HEARD, { detail: told(view, false) }));
  // Streamlit calls this also when newer data overtook these, while the place on the page lives on.
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmSlider !== view) return;
  if (view.timer || view.held) settle(view); // taken away under the finger: the server must not wait for a release
  window.removeEventListener(MOVE, view.moved);
  delete parentElement.gdmSlider;
}
