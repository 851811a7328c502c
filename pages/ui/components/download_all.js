// The button "Download all": the page answers a click with its files as a zip, to which images of the figures are added.

import { download, renderBoth } from "./figure_files.js";

export default function show({ data, parentElement, setTriggerValue }) {
  const view = (parentElement.gdmDownload ??= build(parentElement));
  view.button.onclick = () => {
    view.button.disabled = true;
    view.message.textContent = "Preparing files";
    setTriggerValue("request", true);
  };
  if (!data.package || data.package.number === view.number) return;
  view.number = data.package.number;
  pack(data)
    .then((bytes) => {
      download(bytes, data.name);
      view.message.textContent = "";
    })
    .catch((error) => (view.message.textContent = `The files could not be packed: ${error?.message ?? error}. Try again.`))
    .finally(() => (view.button.disabled = false));
}

function build(parent) {
  const [button, message] = ["button", "span"].map((name) => document.createElement(name));
  Object.assign(button, { type: "button", className: "gdm-primary", textContent: "Download all (.zip)" });
  message.setAttribute("role", "status");
  message.className = "gdm-quiet";
  parent.replaceChildren(button, message);
  return { button, message, number: 0 };
}

async function pack({ package: { zip, figures, surface } }) {
  const images = [];
  for (const [name, figure] of Object.entries(figures)) {
    const [svg, png] = await renderBoth(figure, surface);
    images.push([`figures/${name}.svg`, svg], [`figures/${name}.png`, png]);
  }
  const drawn = await Promise.all(images.map(async ([path, bytes]) => [path, await bytes]));
  return append(Uint8Array.from(atob(zip), (c) => c.charCodeAt(0)), drawn);
}

// ---- zip files (APPNOTE.TXT): entries, then a directory of entries, then its end record of 22 bytes ----------------
function append(zip, files) {
  const end = new DataView(zip.buffer, zip.length - 22);
  const start = end.getUint32(16, true);
  const parts = [zip.subarray(0, start)];
  const directory = [zip.subarray(start, zip.length - 22)];
  let offset = start;
  for (const [name, bytes] of files) {
    const path = new TextEncoder().encode(name);
    const common = (view, at) => {
      view.setUint16(at + 4, 0x0800, true); // names in UTF-8
      view.setUint32(at + 8, 0x00210000, true); // 1 January 1980
      view.setUint32(at + 12, crc32(bytes), true);
      for (const place of [16, 20]) view.setUint32(at + place, bytes.length, true);
      view.setUint16(at + 24, path.length, true);
    };
    const [entry, record] = [new DataView(new ArrayBuffer(30)), new DataView(new ArrayBuffer(46))];
    entry.setUint32(0, 0x04034b50, true);
    entry.setUint16(4, 20, true);
    common(entry, 2);
    record.setUint32(0, 0x02014b50, true);
    for (const place of [4, 6]) record.setUint16(place, 20, true);
    common(record, 4);
    record.setUint32(42, offset, true);
    parts.push(new Uint8Array(entry.buffer), path, bytes);
    directory.push(new Uint8Array(record.buffer), path);
    offset += 30 + path.length + bytes.length;
  }
  const count = end.getUint16(10, true) + files.length;
  for (const place of [8, 10]) end.setUint16(place, count, true);
  end.setUint32(12, directory.reduce((sum, part) => sum + part.length, 0), true);
  end.setUint32(16, offset, true);
  return new Blob([...parts, ...directory, new Uint8Array(zip.buffer, zip.length - 22)]);
}

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function crc32(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
