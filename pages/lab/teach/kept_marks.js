// Marks of a page without a desk outlive a reload and a day: the store of this browser holds them. Nobody else can read it.

export default function ({ data, parentElement, setStateValue }) {
  const name = `gdm-marks-${data.of}`;
  if (data.lesson !== null) {
    localStorage.setItem(name, data.lesson);
    return;
  }
  const kept = localStorage.getItem(name); // a session that knows nothing of this recording yet: the page was reloaded
  if (kept === null || parentElement.gdmAsked === name) return;
  parentElement.gdmAsked = name;
  setStateValue("kept", { of: data.of, lesson: kept });
}
