// Image files of figures for print: 85 mm wide, with text of at least 5.5 pt.

import { loadPlotly } from "./plotly.js";

const WIDTH = 480; // pixels of the layout; PRINT_WIDTH in exports.py
const [MM, DPI] = [85, 600];
// Files are read without this page's fonts, so text is measured in fonts that exist everywhere.
const FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif";

const SCALE = ((MM / 25.4) * DPI) / WIDTH; // of a PNG

// Returns promises of the bytes as SVG and PNG, drawn once. `refit` returns changes of the layout for a width, if any.
export async function renderBoth({ data, layout, height, refit }, surface) {
  const changes = refit?.(WIDTH);
  const size = { width: WIDTH, height: changes?.height ?? height };
  // A transparent picture is unreadable in a document of the other theme.
  const annotations = [...(changes?.annotations ?? layout.annotations ?? []), ...panelLetters({ ...layout, ...changes })];
  const look = { ...layout, ...changes, ...size, annotations, font: { ...layout.font, family: FONT }, paper_bgcolor: surface };
  const Plotly = await loadPlotly(data);
  const image = (options) =>
    Plotly.toImage({ data, layout: look, config: {} }, { ...size, ...options, imageDataOnly: true });
  const svg = await image({ format: "svg" });
  // WebGL is a picture of few pixels in an SVG.
  const png = data.some(({ type }) => type?.endsWith("gl"))
    ? image({ format: "png", scale: SCALE }).then((text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)))
    : rasterise(svg, size);
  const inMm = `width="${MM}mm" height="${((MM * size.height) / WIDTH).toFixed(2)}mm"`;
  return [new TextEncoder().encode(svg.replace(/width="[\d.]+" height="[\d.]+"/, inMm)), png];
}

async function rasterise(svg, { width, height }) {
  const picture = new Image();
  picture.src = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  await picture.decode();
  const canvas = new OffscreenCanvas(Math.round(width * SCALE), Math.round(height * SCALE));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(picture.src);
  return new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer());
}

// Return a bold letter at the upper left of each panel of a figure with several.
export function panelLetters(layout) {
  const tops = Object.entries(layout)
    .filter(([name, axis]) => /^yaxis\d*$/.test(name) && axis.domain && !axis.overlaying)
    .map(([, { domain }]) => domain[1])
    .sort((a, b) => b - a);
  const left = 8 - (layout.margin?.l ?? 0);
  const at = { x: 0, xref: "paper", xanchor: "left", xshift: left, yref: "paper", yanchor: "top", showarrow: false };
  return tops.length < 2 ? [] : tops.map((y, i) => ({ ...at, y, text: `<b>${"abcdefghijkl"[i]}</b>` }));
}

export function download(bytes, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
