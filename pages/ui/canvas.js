// Arrays packed by gdm_studio/plot/figures/base.py, and a clean canvas.
const ARRAYS = { f4: Float32Array, i2: Int16Array, u1: Uint8Array };

// Return data with its arrays unpacked.
function unpacked(data) {
  if (data === null || typeof data !== "object") return data;
  if (Array.isArray(data)) return data.map(unpacked);
  if ("bdata" in data) return new ARRAYS[data.dtype](Uint8Array.from(atob(data.bdata), (c) => c.charCodeAt(0)).buffer);
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, unpacked(value)]));
}

// Return a clean canvas of the displayed size, null while it is hidden.
function paper({ canvas }) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!canvas.isConnected || !width || !height) return null;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.lineJoin = "round";
  pen.lineCap = "round";
  return { pen, width, height };
}

// Return a coloured dot.
function dot(colour) {
  const made = document.createElement("i");
  made.style.background = colour;
  return made;
}

// Return the next start of a run of samples for which `holds` is true, from the last one to the first; null without one.
function nextRun(n, from, holds) {
  for (let i = 1; i <= n; i++) {
    const f = (from + i) % n;
    if (holds(f) && (f === 0 || !holds(f - 1))) return f;
  }
  return null;
}

const CALM = matchMedia("(prefers-reduced-motion: reduce)"); 
