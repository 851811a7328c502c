// HTML of a script or the live channel (pages/ui/plot.py escapes it).

import { onMessage } from "./channel.js";

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmText ??= build(parentElement));
  view.unsubscribe ??= onMessage(data.options.key, (part) => show(view, part));
  if (data !== view.scripted) show(view, data); // Streamlit calls again with the same data, as at a change of theme
  view.scripted = data;
  return () => setTimeout(() => parentElement.isConnected || end(parentElement));
}

function show(view, { html, announcement }) {
  if (view.html !== html) view.words.innerHTML = view.html = html;
  if (view.aloud.textContent !== announcement) view.aloud.textContent = announcement;
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
