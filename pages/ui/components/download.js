// A button that fetches a file and hands it to the browser. It says that it is at it, and what went wrong.

const ROOT = new URL("../../..", import.meta.url); // this file is served three folders below the app
const ICON = `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 4v11m0 0 4.5-4.5M12 15l-4.5-4.5M5 19.5h14"/></svg>`;

function build(place) {
  const root = document.createElement("div");
  root.className = "gdm-download";
  root.innerHTML = `<button type="button">${ICON}<span></span></button><p role="alert" hidden></p>`;
  place.replaceChildren(root);
  const view = { button: root.querySelector("button"), label: root.querySelector("span"), alert: root.querySelector("p") };
  view.button.onclick = () => save(view);
  return view;
}

async function save(view) {
  if (view.busy) return;
  view.busy = true;
  view.button.setAttribute("aria-busy", "true");
  view.alert.hidden = true;
  try {
    const answer = await fetch(new URL(view.address.slice(1), ROOT));
    if (!answer.ok) throw new Error(await answer.text());
    hand(await answer.blob(), view.name);
  } catch (error) {
    view.alert.textContent = error instanceof TypeError ? "The server does not answer. Try again in a moment." : error.message;
    view.alert.hidden = false;
  } finally {
    view.busy = false;
    view.button.removeAttribute("aria-busy");
  }
}

function hand(content, name) {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmDownload ??= build(parentElement));
  Object.assign(view, { address: data.address, name: data.name });
  if (view.label.textContent !== data.label) view.label.textContent = data.label;
}
