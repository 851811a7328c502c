// Animals as lines and dots on a canvas, for the player and the grid of clips. Keypoints come packed
// as whole numbers: data.xy [frame, animal, x or y, part], with the box around them in the same numbers.

const MISSING = -32768;
// The first two animals differ in colour; those after them, who share the second one's, in their lines and hollow dots.
const DASHES = [[], [7, 5], [2, 5]];

// ---- positions at one time ------------------------------------------------------------------------------------
function place(data, frame, animal, part) {
  const { parts, animals } = data;
  const at = (f, c) => data.xy[((f * animals.length + animal) * 2 + c) * parts.length + part];
  const before = Math.floor(frame);
  const after = Math.min(before + 1, data.n - 1);
  const [x0, y0, x1, y1] = [at(before, 0), at(before, 1), at(after, 0), at(after, 1)];
  if (x0 === MISSING || y0 === MISSING) return null;
  if (x1 === MISSING || y1 === MISSING) return [x0, y0];
  const share = frame - before;
  return [x0 + (x1 - x0) * share, y0 + (y1 - y0) * share];
}

function centre(data, frame, animal) {
  let [x, y, n] = [0, 0, 0];
  for (let part = 0; part < data.parts.length; part++) {
    const at = place(data, frame, animal, part);
    if (at) [x, y, n] = [x + at[0], y + at[1], n + 1];
  }
  return n ? [x / n, y / n] : null;
}

// Returns the map from the box to a canvas of this size.
function fitted([left, top, right, bottom], width, height, pad = 12) {
  const scale = Math.min((width - 2 * pad) / (right - left), (height - 2 * pad) / (bottom - top));
  return ([x, y]) => [width / 2 + (x - (left + right) / 2) * scale, height / 2 + (y - (top + bottom) / 2) * scale];
}

function frameBox(pen, toScreen, [left, top, right, bottom], colour) {
  const [x0, y0] = toScreen([left, top]);
  const [x1, y1] = toScreen([right, bottom]);
  pen.globalAlpha = 0.25;
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
  pen.globalAlpha = 1;
}

// All animals of a frame, the first one on top.
function skeletons(pen, data, frame, toScreen, ink, muted) {
  for (let animal = data.animals.length - 1; animal >= 0; animal--) {
    skeleton(pen, data, frame, toScreen, animal, animal === 0 ? ink : muted, DASHES[Math.max(0, animal - 1) % DASHES.length]);
  }
}

function skeleton(pen, data, frame, toScreen, animal, colour, dash) {
  const points = data.parts.map((_, part) => place(data, frame, animal, part)).map((at) => at && toScreen(at));
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = animal === 0 ? 2.6 : 2;
  pen.setLineDash(dash);
  for (const [a, b] of data.edges) {
    if (!points[a] || !points[b]) continue;
    pen.beginPath();
    pen.moveTo(...points[a]);
    pen.lineTo(...points[b]);
    pen.stroke();
  }
  pen.setLineDash([]);
  points.forEach((at, part) => {
    if (!at) return;
    pen.beginPath();
    pen.arc(at[0], at[1], part === 0 ? 4.6 : 2.8, 0, 2 * Math.PI);
    if (dash.length) pen.stroke();
    else pen.fill();
  });
}

// Draws a video into a box; returns the map from poses to the canvas, null if poses have no pixels.
function picture(pen, video, pixels, left, top, width, height) {
  const scale = Math.min(width / video.videoWidth, height / video.videoHeight);
  const [w, h] = [video.videoWidth * scale, video.videoHeight * scale];
  const [x0, y0] = [left + (width - w) / 2, top + (height - h) / 2];
  pen.drawImage(video, x0, y0, w, h);
  if (!pixels) return null;
  const { low, unit, image } = pixels;
  const size = image ? w / image[0] : scale;
  return ([x, y]) => [x0 + (low[0] + unit * x) * size, y0 + (low[1] + unit * y) * size];
}
