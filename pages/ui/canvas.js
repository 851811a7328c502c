// What drawings on a canvas share: numbers as Python packs them (pages/ui/player.py), and a clean sheet to draw on.
const bytes = (text) => (text ? Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) : null);

// A clean canvas as large as it is shown, or null while it is not.
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

const CALM = matchMedia("(prefers-reduced-motion: reduce)"); // whoever asks for less motion
