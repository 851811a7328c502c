// The video of a recording in its player, under the poses or next to them. It comes from the user's disk.
// `offset` is the video frame of the recording's first frame, `rate` the frames per second of the video.

function setUpVideo(view) {
  const { fromDisk, offset, rate, over, without } = view;
  view.video = document.createElement("video");
  Object.assign(view.video, { muted: true, playsInline: true, preload: "auto" });
  const seen = (_, { mediaTime }) => {
    const { clip } = view;
    if (clip) {
      clip.frame = Math.round(mediaTime * clip.rate - 0.001);
      if (!view.playing) draw(view);
    }
    view.video.requestVideoFrameCallback(seen);
  };
  view.video.requestVideoFrameCallback(seen);
  view.video.onseeked = () => {
    if (view.clip) view.clip.seeking = false;
    draw(view);
  };
  view.video.onerror = () => view.clip && lose(view, `${view.clip.name} cannot be played by this browser. Use MP4 (H.264) or WebM.`);
  fromDisk.onchange = () => fromDisk.files[0] && show(view, URL.createObjectURL(fromDisk.files[0]), fromDisk.files[0].name);
  without.onclick = () => {
    if (view.clip) delete window.gdmVideos?.[view.data.recording];
    lose(view, "");
  };
  offset.onchange = rate.onchange = () => {
    const { clip } = view;
    if (!clip) return;
    clip.offset = Math.round(Number(offset.value));
    if (Number(rate.value) > 0) clip.rate = Number(rate.value);
    localStorage.setItem(PLACE(view), JSON.stringify({ offset: clip.offset, rate: clip.rate }));
    begin(view);
  };
  over.onchange = () => draw(view);
}

const PLACE = ({ data }) => `gdm-video-${data.recording}`;
const perSecond = ({ data }) => data.stride / data.step; // frames of the recording

async function show(view, address, name) {
  const kept = JSON.parse(localStorage.getItem(PLACE(view)) ?? "{}");
  const clip = (view.clip = { name, address, offset: kept.offset ?? 0, rate: kept.rate ?? perSecond(view), frame: null, seeking: false });
  const { video } = view;
  video.src = address;
  await new Promise((done) => (video.onloadeddata = done));
  if (view.clip !== clip) return;
  if (video.duration === Infinity) {
    // Videos recorded by a browser know their length only after a seek to the end.
    video.currentTime = 1e9;
    await new Promise((done) => (video.ondurationchange = done));
  }
  if (view.clip !== clip) return;
  clip.ready = true;
  window.gdmVideos = { ...window.gdmVideos, [view.data.recording]: clip }; // opened again when the player returns to the trial
  begin(view);
}

function begin(view) {
  [view.offset.value, view.rate.value] = [String(view.clip.offset), String(view.clip.rate)];
  say(view);
  draw(view);
}

function lose(view, why) {
  setPlaying(view, false);
  view.clip = null;
  view.video.removeAttribute("src");
  view.video.load();
  view.fromDisk.value = "";
  view.drift.textContent = why;
  draw(view);
}

// Describe how the video and the recording differ in length.
function say(view) {
  const { clip, data, video, drift } = view;
  const ours = (data.n - 1) * data.stride + 1;
  const theirs = Math.round(video.duration * clip.rate);
  const seconds = (theirs - clip.offset) / clip.rate - ours / perSecond(view);
  const apart = Math.abs(seconds) * clip.rate < 1.5 ? "they end together" : `the video ends ${Math.abs(seconds).toFixed(2)} s ${seconds > 0 ? "after" : "before"} the recording`;
  const stretch = Math.abs(seconds) * clip.rate >= 1.5 && Math.abs(seconds) < 0.1 * video.duration
    ? ` If both show the same period, set the rate to ${((theirs - clip.offset) / (ours / perSecond(view))).toFixed(3)}.` : "";
  drift.textContent = `${clip.name}: ${theirs.toLocaleString("en")} frames, ${clip.rate} per second; recording: ${ours.toLocaleString("en")}, ${perSecond(view).toFixed(2).replace(/\.?0+$/, "")} per second; ${apart}.${stretch}`;
}

// ---- the clock ----------------------------------------------------------------------------------------------------
function wanted({ at, clip, data, video }) {
  if (!clip?.ready) return null;
  const frame = Math.round(clip.offset + at * data.step * clip.rate);
  return frame >= 0 && (frame + 0.5) / clip.rate < video.duration ? frame : null;
}

const media = {
  play(view, playing) {
    const { video } = view;
    if (!playing || wanted(view) === null) return video.pause();
    video.playbackRate = Number(view.speed.value);
    video.play().catch(() => {}); // paused again before it began
  },
  // The frame of the recording on screen; null without video.
  at(view) {
    const { clip, video, data } = view;
    if (wanted(view) === null || video.paused || video.ended) return null;
    return clip.frame === null ? view.at : Math.max(0, (clip.frame - clip.offset) / clip.rate / data.step);
  },
};

// Seek to the current frame if the video shows another one.
function still(view) {
  const { clip, video } = view;
  const frame = wanted(view);
  if (frame === null) return false;
  if (!view.playing && !clip.seeking && clip.frame !== frame && Math.abs(video.currentTime * clip.rate - frame - 0.5) > 0.125) {
    clip.seeking = true;
    video.currentTime = (frame + 0.5) / clip.rate;
  }
  return video.readyState >= 2;
}
