// One entry of the browser's history for each change that somebody made, so that Back undoes it. Streamlit replaces the entry
// when one of its controls writes the address, and adds one whenever the page's script does.

const FOLLOWS = "colours"; // says how a result is shown, and changes when a fit is done: no step of anybody's
const TOUCH = ["pointerdown", "pointerup", "keydown", "input", "change"];

function settings(address) {
  const found = new URLSearchParams(address.search);
  found.delete(FOLLOWS);
  found.sort();
  return found.toString();
}

function watch() {
  const { pushState, replaceState } = History.prototype;
  let touched = false; // since the last entry: what else a change of one setting brings along belongs to that entry
  let here = settings(location);
  const left = new Set(); // by Back or Forward, with no touch since
  for (const name of TOUCH)
    window.addEventListener(
      name,
      () => {
        touched = true;
        left.clear();
      },
      true,
    );
  window.addEventListener(
    "popstate",
    () => {
      touched = false;
      left.add(here);
      here = settings(location);
    },
    true,
  );
  const write = (given) => (state, title, url) => {
    const next = new URL(url ?? location.href, location.href);
    if (next.pathname !== location.pathname) {
      touched = false;
      here = settings(next);
      return given.call(history, state, title, url);
    }
    const asked = settings(next);
    const changed = asked !== here;
    if (changed && left.delete(asked)) {
      // Written by a run that began before the step, come after it. Streamlit believes it, and is told again where it is.
      setTimeout(() => window.dispatchEvent(new PopStateEvent("popstate")));
      return;
    }
    here = asked;
    const add = changed && touched;
    touched &&= !changed;
    return (add ? pushState : replaceState).call(history, state, title, url);
  };
  Object.assign(history, { pushState: write(pushState), replaceState: write(replaceState) });
}

export default function () {
  if (Object.hasOwn(history, "pushState")) return;
  watch();
}
