// Two cars on the map of a lap, moved by one clock from the start line on. Play, scrub and step without asking the server:
// laps come once, at even distances. The page's cursor is the distance of the first car.

const ANNOUNCE = "gdm:cursor";
const TRAIL_M = 350;
const PAD = 26;
const STILL_MS = 1000; // who asks for less motion gets a picture a second in place of an animation
const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const DASHES = { solid: [], dash: [6, 4], dot: [2, 3], dashdot: [6, 3, 2, 3] };

const unpack = (text, Kind) => new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

function decode(data) {
  const cars = data.cars.map((car) => ({
    ...car,
    seconds: unpack(car.seconds, Float32Array),
    rgb: unpack(car.rgb, Uint8Array),
    strength: unpack(car.strength, Uint8Array),
    state: unpack(car.state, Uint8Array),
    share: unpack(car.share, Uint8Array),
    car: Object.fromEntries(Object.entries(car.car).map(([name, text]) => [name, unpack(text, Float32Array)])),
  }));
  // The lap ends at the line, a step or less behind the last place: as far as the last step goes on.
  const lengths = cars.map(({ seconds }) => 2 * seconds.at(-1) - seconds.at(-2));
  return { ...data, cars, lengths, line: unpack(data.line, Float32Array), end: Math.max(...lengths) };
}

function build(parent) {
  const view = { seconds: 0, playing: false, parent };
  for (const role of ["canvas", "cars", "play", "scrub", "time", "speed", "alt"]) {
    view[role] = parent.querySelector(`[data-role=${role}]`);
  }
  view.play.onclick = () => setPlaying(view, !view.playing);
  view.scrub.oninput = () => {
    setPlaying(view, false);
    seek(view, Number(view.scrub.value), true);
  };
  view.canvas.onkeydown = (event) => {
    const step = { ArrowRight: 0.25, ArrowLeft: -0.25, PageDown: 5, PageUp: -5 }[event.key];
    if (event.key === " ") setPlaying(view, !view.playing);
    else if (event.key === "Home") seek(view, 0, true);
    else if (event.key === "End") seek(view, view.data.end, true);
    else if (step) seek(view, view.seconds + step, true);
    else return;
    event.preventDefault();
  };
  view.heard = ({ detail }) => {
    if (detail.group !== view.data.group || detail.from === view || detail.time === null || view.playing) return;
    seek(view, secondsAt(view.data.cars[0], view.data, detail.time), false);
  };
  window.addEventListener(ANNOUNCE, view.heard);
  view.resize = new ResizeObserver(() => draw(view));
  view.resize.observe(view.canvas);
  return view;
}

function secondsAt(car, data, distance) {
  const at = Math.min(car.seconds.length - 1, Math.max(0, distance / data.step));
  const before = Math.floor(at);
  const after = Math.min(before + 1, car.seconds.length - 1);
  return car.seconds[before] + (car.seconds[after] - car.seconds[before]) * (at - before);
}

// How far a car has come, in steps of the grid; it waits at the line when its lap is over.
function placeAt(car, data, seconds, i) {
  const last = car.seconds.length - 1;
  if (seconds >= data.lengths[i]) return data.length / data.step;
  if (seconds >= car.seconds[last]) {
    return last + ((seconds - car.seconds[last]) / (data.lengths[i] - car.seconds[last])) * (data.length / data.step - last);
  }
  let low = 0;
  let high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (car.seconds[middle] <= seconds) low = middle;
    else high = middle;
  }
  const step = car.seconds[high] - car.seconds[low];
  return low + (step > 0 ? Math.max(0, seconds - car.seconds[low]) / step : 0);
}

function seek(view, seconds, tell) {
  view.seconds = Math.max(0, Math.min(view.data.end, seconds));
  draw(view);
  if (tell) announce(view);
}

function announce(view) {
  const time = placeAt(view.data.cars[0], view.data, view.seconds, 0) * view.data.step;
  window.dispatchEvent(new CustomEvent(ANNOUNCE, { detail: { group: view.data.group, time, from: view } }));
}

function setPlaying(view, playing) {
  if (playing && view.seconds >= view.data.end) view.seconds = 0;
  view.playing = playing;
  view.play.textContent = playing ? "Pause" : "Play";
  view.play.setAttribute("aria-pressed", playing);
  view.last = null;
  clearTimeout(view.timer);
  if (playing) next(view);
}

function next(view) {
  if (CALM.matches) view.timer = setTimeout(() => advance(view, performance.now()), view.last === null ? 0 : STILL_MS);
  else requestAnimationFrame((now) => advance(view, now));
}

function advance(view, now) {
  if (!view.playing || !view.canvas.isConnected) return;
  if (view.last !== null) {
    const passed = ((now - view.last) / 1000) * Number(view.speed.value);
    seek(view, view.seconds + passed, true);
    if (view.seconds >= view.data.end) {
      setPlaying(view, false);
      return;
    }
  }
  view.last = now;
  next(view);
}

// ---- drawing --------------------------------------------------------------------------------------------------
function draw(view) {
  const { canvas, data } = view;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!data || !canvas.isConnected || !width || !height) return;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const look = getComputedStyle(canvas);
  const toScreen = projection(data, width, height);
  pen.lineJoin = "round";
  pen.lineCap = "round";
  track(pen, data, toScreen, look.color);
  corners(pen, data, toScreen, look, getComputedStyle(view.time).color);
  const places = data.cars.map((car, i) => placeAt(car, data, view.seconds, i));
  // Side by side where they are at one place: a trail each, left and right of the middle of the track.
  data.cars.forEach((car, i) => trail(pen, data, toScreen, car, places[i], i ? 4 : -4));
  data.cars.forEach((car, i) => marker(pen, data, toScreen, car, places[i], i ? 4 : -4, look));
  words(view, places);
  canvas.dataset.seconds = view.seconds.toFixed(3);
}

function projection(data, width, height) {
  data.box ??= [0, 1].flatMap((axis) => {
    const all = data.line.filter((_, i) => i % 2 === axis);
    return [Math.min(...all), Math.max(...all)];
  });
  const [x0, x1, y0, y1] = data.box;
  const scale = Math.min((width - 2 * PAD) / (x1 - x0), (height - 2 * PAD) / (y1 - y0));
  const toScreen = (x, y) => [width / 2 + (x - (x0 + x1) / 2) * scale, height / 2 - (y - (y0 + y1) / 2) * scale];
  return Object.assign(toScreen, { scale });
}

// A place between two points of the line, moved `aside` pixels to the left of the way.
function point(data, toScreen, at, aside = 0) {
  const last = data.line.length / 2 - 1;
  const low = Math.min(last - 1, Math.max(0, Math.floor(at)));
  const [a, b] = [low, low + 1].map((i) => toScreen(data.line[2 * i], data.line[2 * i + 1]));
  const share = Math.min(1, Math.max(0, at - low));
  const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
  const long = Math.hypot(dx, dy) || 1;
  return [a[0] + dx * share + (dy / long) * aside, a[1] + dy * share - (dx / long) * aside];
}

function track(pen, data, toScreen, ink) {
  pen.beginPath();
  for (let i = 0; i < data.line.length / 2; i++) {
    const at = toScreen(data.line[2 * i], data.line[2 * i + 1]);
    if (i) pen.lineTo(...at);
    else pen.moveTo(...at);
  }
  pen.closePath();
  pen.strokeStyle = ink;
  pen.globalAlpha = 0.16;
  pen.lineWidth = 15;
  pen.stroke();
  pen.globalAlpha = 1;
}

function corners(pen, data, toScreen, look, muted) {
  pen.font = `11px ${look.fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillStyle = muted;
  const { marks } = data.corners.findLast(({ scale }) => scale <= toScreen.scale) ?? data.corners[0];
  for (const [name, x, y] of marks) pen.fillText(name, ...toScreen(x, y));
}

function trail(pen, data, toScreen, car, place, aside) {
  const first = Math.max(0, Math.ceil(place - TRAIL_M / data.step));
  pen.lineWidth = 6;
  for (let i = first; i < place; i++) {
    const at = Math.min(i, car.state.length - 1);
    const age = (i - first + 1) / (place - first + 1);
    pen.strokeStyle = `rgb(${car.rgb[3 * at]},${car.rgb[3 * at + 1]},${car.rgb[3 * at + 2]})`;
    pen.globalAlpha = (0.15 + 0.85 * age) * (car.strength[at] / 255);
    pen.beginPath();
    pen.moveTo(...point(data, toScreen, i, aside));
    pen.lineTo(...point(data, toScreen, Math.min(i + 1, place), aside));
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function marker(pen, data, toScreen, car, place, aside, look) {
  const [x, y] = point(data, toScreen, place, aside);
  const [fx, fy] = point(data, toScreen, place, 5 * aside);
  pen.setLineDash(DASHES[car.dash] ?? []);
  pen.fillStyle = data.colours[car.state[Math.min(Math.floor(place), car.state.length - 1)]];
  pen.strokeStyle = car.colour;
  pen.lineWidth = 3;
  pen.beginPath();
  pen.arc(x, y, 7, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
  pen.setLineDash([]);
  pen.font = `600 12px ${look.fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 3;
  pen.strokeStyle = look.backgroundColor;
  pen.strokeText(car.code, fx, fy);
  pen.fillStyle = look.color;
  pen.fillText(car.code, fx, fy);
}

function words(view, places) {
  const { data } = view;
  view.time.textContent = `${view.seconds.toFixed(1)} s`;
  view.scrub.value = String(view.seconds);
  const front = secondsAt(data.cars[0], data, Math.min(...places) * data.step);
  data.cars.forEach((car, i) => {
    const at = Math.min(Math.floor(places[i]), car.state.length - 1);
    const row = view.cars.children[i];
    row.querySelector(".does").textContent = does(car.car, at);
    row.querySelector(".state i").style.background = data.colours[car.state[at]];
    row.querySelector(".state em").textContent = `${data.names[car.state[at]]} ${car.share[at]} %`;
    if (i) {
      // The gap is the difference of the times at which both pass the place of the one who is behind.
      const gap = secondsAt(car, data, Math.min(...places) * data.step) - front;
      row.querySelector(".gap").textContent = `${gap < -0.005 ? "−" : "+"}${Math.abs(gap).toFixed(2)} s`;
    }
  });
}

function does(car, at) {
  const parts = [];
  const known = (name) => car[name] && Number.isFinite(car[name][at]);
  if (known("speed")) parts.push(`${Math.round(car.speed[at])} km/h`);
  if (known("gear")) parts.push(`gear ${Math.round(car.gear[at])}`);
  if (known("throttle")) parts.push(`throttle ${Math.round(car.throttle[at])} %`);
  if (known("brake") && car.brake[at] > 0.5) parts.push("brake");
  return parts.join(" · ");
}

function rows(view) {
  view.cars.textContent = "";
  for (const car of view.data.cars) {
    const row = document.createElement("div");
    row.className = "car";
    row.innerHTML = `<span class="line"></span><b></b><span class="gap"></span><span class="does"></span>
      <span class="state"><i></i><em style="font-style: normal"></em></span>`;
    const line = row.querySelector(".line");
    line.style.borderTopColor = car.colour;
    line.style.borderTopStyle = car.dash === "solid" ? "solid" : car.dash === "dot" ? "dotted" : "dashed";
    row.querySelector("b").textContent = car.name;
    view.cars.append(row);
  }
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmLap ??= build(parentElement));
  const another = view.data?.lap !== data.lap;
  view.data = decode(data);
  view.scrub.max = String(view.data.end);
  view.alt.textContent = data.alt;
  view.canvas.setAttribute("aria-label", data.alt);
  rows(view);
  if (another) {
    setPlaying(view, false);
    view.seconds = 0;
  }
  draw(view);
  view.canvas.dataset.ready = "yes";
  // Streamlit calls this also when newer data overtook these, while the player lives on: what goes for good has left
  // the document by the time of the next task.
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmLap !== view) return;
  view.playing = false;
  clearTimeout(view.timer);
  view.resize.disconnect();
  window.removeEventListener(ANNOUNCE, view.heard);
  delete parentElement.gdmLap;
}
