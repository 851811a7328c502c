// Saves a canvas as a video with the browser's encoder.
const KINDS = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm", "video/mp4"];

// Record while `play` runs, and save the video as `name`. The element `said` shows `about` first, then the result.
async function record({ canvas, save, said }, name, about, play) {
  const kind = window.MediaRecorder && KINDS.find((one) => MediaRecorder.isTypeSupported(one));
  if (!kind) {
    said.textContent = "This browser records no video of a page: Chrome, Edge and Firefox do.";
    return;
  }
  save.disabled = true;
  said.textContent = about;
  const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: kind, videoBitsPerSecond: 6e6 });
  const parts = [];
  recorder.ondataavailable = (event) => parts.push(event.data);
  const ended = new Promise((done) => (recorder.onstop = done));
  recorder.start();
  await play();
  recorder.stop();
  await ended;
  const address = URL.createObjectURL(new Blob(parts, { type: kind.split(";")[0] }));
  const file = `${name}.${kind.includes("mp4") ? "mp4" : "webm"}`;
  Object.assign(document.createElement("a"), { href: address, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
  save.disabled = false;
  said.textContent = `${file} is saved.`;
}
