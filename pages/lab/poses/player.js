// Skeletons on a canvas. Follows pages/ui/player.js (whose clock counts frames), poses.js and video.js.

const STATES = "gdm:states"; // of a dragged slider; null when it is released
const TRAIL_S = 4;

// Colours and bouts of frame `f`, from the dragged slider or the server.
function found(view, f) {
  const { data, held } = view;
  const from = held ?? data;
  const i = held ? Math.min(Math.floor((f * data.stride) / held.stride), held.strength.length - 1) : f;
  return { rgb: from.rgb?.subarray(3 * i, 3 * i + 3), strength: from.strength?.[i], state: (from.state || undefined)?.[i] };
}

// ---- drawing --------------------------------------------------------------------------------------------------
function draw(view) {
  const { canvas, data } = view;
  canvas.style.height = canvas.clientWidth < 520 ? "230px" : "300px";
  const on = paper(view);
  if (!on) return;
  const { pen, width, height } = on;
  const ink = getComputedStyle(canvas).color;
  const muted = getComputedStyle(view.time).color;
  let toScreen = fitted(data.box, width, height);
  const there = still(view);
  if (there) {
    const on = view.over.checked && data.pixels;
    const mapped = picture(pen, view.video, data.pixels, 0, 0, on ? width : width / 2, height);
    const beside = fitted(data.box, width / 2, height);
    toScreen = on ? mapped : (point) => [beside(point)[0] + width / 2, beside(point)[1]];
  }
  canvas.dataset.video = there ? view.clip.frame : "";
  if (!there || !view.over.checked) frameBox(pen, toScreen, data.box, muted);
  for (let animal = 0; animal < data.animals.length; animal++) trail(pen, view, toScreen, animal, muted);
  if (there && view.over.checked) [pen.shadowColor, pen.shadowBlur] = ["#000000", 4]; // contrast with the video
  skeletons(pen, data, view.at, toScreen, ...(there && view.over.checked ? ["#ffffff", "#ffd27f"] : [ink, muted]));
  pen.shadowBlur = 0;
  words(view);
  canvas.dataset.frame = view.at.toFixed(1);
}

function trail(pen, view, toScreen, animal, muted) {
  const { data, at: frame } = view;
  const last = Math.floor(frame);
  const first = Math.max(0, last - Math.round(TRAIL_S / data.step));
  pen.lineWidth = animal === 0 ? 5 : 2.5;
  let before = null;
  for (let f = first; f <= last; f++) {
    const at = centre(data, f, animal);
    if (before && at) {
      const age = (f - first) / Math.max(1, last - first);
      const { rgb, strength = 153 } = found(view, f);
      pen.strokeStyle = rgb ? `rgb(${rgb})` : muted;
      pen.globalAlpha = 0.15 + (0.75 * age * strength) / 255;
      pen.beginPath();
      pen.moveTo(...toScreen(before));
      pen.lineTo(...toScreen(at));
      pen.stroke();
    }
    before = at;
  }
  pen.globalAlpha = 1;
}

function words(view) {
  const { data } = view;
  const f = Math.round(view.at);
  const seconds = data.start + f * data.step;
  const frame = Math.round(view.at * data.stride);
  view.time.textContent = `${seconds.toFixed(1)} s · frame ${frame}${view.canvas.dataset.video ? ` · video ${view.canvas.dataset.video}` : ""}`;
  view.scrub.value = String(f);
  chip(view.expert, "expert", data.expert?.[f], data.expertNames, data.expertColours);
  chip(view.found, "model", found(view, f).state, data.names, data.colours);
}

function chip(place, who, code, names, colours) {
  const known = names?.[code] !== undefined;
  const [colour, text] = [known ? colours[code] : "transparent", `${who}: ${known ? names[code] : "none"}`];
  place.hidden = code === undefined;
  if (place.dataset.shown === colour + text) return;
  place.dataset.shown = colour + text;
  place.replaceChildren(dot(colour), text);
}

function jumpButtons(view) {
  const { data, jumps, states } = view;
  jumps.hidden = !data.state;
  const button = (name, k) => {
    const made = Object.assign(document.createElement("button"), { type: "button" });
    made.append(dot(data.colours[k]), name);
    made.onclick = () => {
      setPlaying(view, false);
      seek(view, nextRun(data.state.length, Math.round(view.at), (f) => data.state[f] === k), true);
    };
    return data.state?.includes(k) ? [made] : [];
  };
  states.replaceChildren(...data.names.flatMap(button));
}

function dress(view) {
  const { data } = view;
  const animals = data.animals.map((name, animal) => {
    const item = document.createElement("span");
    item.className = animal === 0 ? "first" : ["plain", "dashed", "dotted"][(animal - 1) % DASHES.length];
    item.append(dot(""), name);
    return item;
  });
  view.animals.replaceChildren(...animals);
  jumpButtons(view);
  if (view.filmOf !== data.recording) {
    view.filmOf = data.recording;
    const film = window.gdmVideos?.[data.recording]; // opened earlier by the user
    if (film) show(view, film.address, film.name);
    else if (view.clip) lose(view, "");
  }
}

export default player({
  of: "recording",
  words: ["Play poses", "Pause poses"],
  keys: { ArrowRight: 1, ArrowLeft: -1, PageDown: 30, PageUp: -30 },
  fine: ({ stride }) => 1 / stride, // of a recording that is thinned, frames lie between those that were sent
  follow: true,
  begin: (data) => Math.min(data.n - 1, Math.round(TRAIL_S / data.step)), // the first moment with a whole trail
  end: (data) => data.n - 1,
  rate: (data) => 1 / data.step,
  cursor: ({ data, at }) => data.start + at * data.step,
  moment: ({ data }, time) => (time - data.start) / data.step,
  dress,
  draw,
  listens: (view) => ({
    [STATES]: ({ detail }) => {
      view.held = detail;
      if (view.data) draw(view);
    },
  }),
  starts: setUpVideo,
  media,
});
