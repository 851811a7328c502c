// Marks outlive a reload: the storage of this browser tab holds them until the tab is closed. Nobody else can read it.

export default function ({ data, parentElement, setStateValue }) {
  const name = `gdm-marks-${data.of}`;
  if (data.lesson !== null) {
    sessionStorage.setItem(name, data.lesson);
    return;
  }
  const kept = sessionStorage.getItem(name); // a session that knows nothing of this recording yet: the page was reloaded
  if (kept === null || parentElement.gdmAsked === name) return;
  parentElement.gdmAsked = name;
  setStateValue("kept", { of: data.of, lesson: kept });
}
