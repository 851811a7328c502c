// HTML of a script or the live channel (pages/ui/plot.py escapes it).

import { onMessage } from "./channel.js";

export default function show({ data, parentElement }) {
  const view = (parentElement.gdmText ??= build(parentElement));
  view.unsubscribe ??= onMessage(data.options.key, (part) => show({ data: { ...data, ...part }, parentElement }));
  if (view.html !== data.html) view.words.innerHTML = view.html = data.html;
  if (view.aloud.textContent !== data.announcement) view.aloud.textContent = data.announcement;
  return () => setTimeout(() => parentElement.isConnected || end(parentElement));
}

function build(parent) {
  const [words, aloud] = ["div", "p"].map((name) => document.createElement(name));
  words.className = "gdm-text";
  aloud.className = "gdm-sr";
  aloud.setAttribute("aria-live", "polite");
  parent.replaceChildren(words, aloud);
  return { words, aloud, html: null };
}

function end(parent) {
  parent.gdmText?.unsubscribe();
  delete parent.gdmText;
}
