// Two cars on the map of a lap, over the clock of pages/ui/player.js, which stands above this: seconds from the start line on. Saved as a
// video by recorder.js, which does too: then the picture holds what is otherwise written below it.
// Laps come once, at even distances. The page's cursor is the distance of the first car.

const TRAIL_M = 350;
const PAD = 26;
const LINE = 19; // pixels of a line of a video's words
const DASHES = { solid: [], dash: [6, 4], dot: [2, 3], dashdot: [6, 3, 2, 3] };

// The lap ends at the line, a step or less behind the last place: as far as the last step goes on.
function knows({ cars }) {
  const lengths = cars.map(({ seconds }) => 2 * seconds.at(-1) - seconds.at(-2));
  return { lengths, end: Math.max(...lengths) };
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

// ---- drawing --------------------------------------------------------------------------------------------------
function draw(view) {
  const { canvas, data } = view;
  const on = paper(view);
  if (!on) return;
  const { pen, width, height } = on;
  const look = getComputedStyle(canvas);
  const room = view.filmed ? 8 + LINE * data.cars.length : 0;
  const toScreen = projection(data, width, height - room);
  if (view.filmed) {
    pen.fillStyle = look.outlineColor;
    pen.fillRect(0, 0, width, height);
  }
  track(pen, data, toScreen, look.color);
  corners(pen, data, toScreen, look, getComputedStyle(view.time).color);
  const places = data.cars.map((car, i) => placeAt(car, data, view.at, i));
  // Side by side where they are at one place: a trail each, left and right of the middle of the track.
  data.cars.forEach((car, i) => trail(pen, data, toScreen, car, places[i], i ? 4 : -4));
  data.cars.forEach((car, i) => marker(pen, data, toScreen, car, places[i], i ? 4 : -4, look));
  const told = data.cars.map((_, i) => tell(data, places, i));
  words(view, told);
  if (view.filmed) told.forEach((one, i) => caption(pen, view, one, i, height - room + LINE * i + LINE / 2, width, look));
  canvas.dataset.seconds = view.at.toFixed(3);
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

// What is said of a car: what it does, its state, and the gap to the first car, which is the difference of the times at which both
// pass the place of the one who is behind.
function tell(data, places, i) {
  const car = data.cars[i];
  const at = Math.min(Math.floor(places[i]), car.state.length - 1);
  const behind = Math.min(...places) * data.step;
  const gap = secondsAt(car, data, behind) - secondsAt(data.cars[0], data, behind);
  return {
    does: does(car.car, at),
    colour: data.colours[car.state[at]],
    state: `${data.names[car.state[at]]} ${car.share[at]} %`,
    gap: i ? `${gap < -0.005 ? "−" : "+"}${Math.abs(gap).toFixed(2)} s` : "",
  };
}

function words(view, told) {
  view.time.textContent = `${view.at.toFixed(1)} s`;
  view.scrub.value = String(view.at);
  told.forEach(({ does, colour, state, gap }, i) => {
    const row = view.cars.children[i];
    row.querySelector(".does").textContent = does;
    row.querySelector(".state i").style.background = colour;
    row.querySelector(".state em").textContent = state;
    row.querySelector(".gap").textContent = gap;
  });
}

// The same in a line of the picture.
function caption(pen, { data, at }, { does, colour, state, gap }, i, y, width, look) {
  const car = data.cars[i];
  pen.setLineDash(DASHES[car.dash] ?? []);
  [pen.strokeStyle, pen.lineWidth] = [car.colour, 3];
  pen.beginPath();
  pen.moveTo(10, y);
  pen.lineTo(32, y);
  pen.stroke();
  pen.setLineDash([]);
  pen.fillStyle = colour;
  pen.fillRect(40, y - 6, 12, 12);
  pen.fillStyle = look.color;
  [pen.font, pen.textAlign, pen.textBaseline] = [`12px ${look.fontFamily}`, "left", "middle"];
  const said = [car.name, i ? gap : `${at.toFixed(1)} s`, state];
  const all = [...said, does].join(" · ");
  const room = width - 66; // on a phone there is none for what the car does
  pen.fillText(pen.measureText(all).width > room ? said.join(" · ") : all, 58, y, room);
}

// From the line to the line, until it stands still: at its end, or where somebody paused it.
async function film(view) {
  view.filmed = true;
  seek(view, 0, true);
  setPlaying(view, true);
  while (view.playing && view.canvas.isConnected) await new Promise((done) => setTimeout(done, 100));
  view.filmed = false;
  draw(view);
}

function saved(view) {
  view.save.onclick = () => {
    const seconds = Math.ceil(view.data.end / Number(view.speed.value));
    record(view, view.data.file, `Being recorded while it plays, ${seconds} s; Pause ends it there.`, () => film(view));
  };
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

export default player({
  of: "lap",
  words: ["Play", "Pause"],
  keys: { ArrowRight: 0.25, ArrowLeft: -0.25, PageDown: 5, PageUp: -5 },
  knows,
  begin: () => 0,
  end: (data) => data.end,
  rate: () => 1,
  cursor: ({ data, at }) => placeAt(data.cars[0], data, at, 0) * data.step,
  moment: ({ data }, distance) => secondsAt(data.cars[0], data, distance),
  dress: rows,
  draw,
  starts: saved,
});
