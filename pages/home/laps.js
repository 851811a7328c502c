// The two laps of Home: CSS moves the cars; a dragged car sets the time of both.
const LAP_MS = 9000; // of home.css
const SAMPLES = 240; // of the road, for the point nearest to the pointer
const STEP_MS = 90; // of an arrow key
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

function moveTo(laps, ms) {
  const at = ((ms % LAP_MS) + LAP_MS) % LAP_MS;
  for (const animation of laps.getAnimations({ subtree: true })) animation.currentTime = at;
  for (const car of laps.querySelectorAll("[role=slider]")) car.setAttribute("aria-valuenow", Math.round((100 * at) / LAP_MS));
}

// Return the share of the lap at the point of the road nearest to the pointer.
function shareAt(road, points, { clientX, clientY }) {
  const { left, top, width } = road.getBoundingClientRect();
  const scale = width / 300;
  const far = points.map(({ x, y }) => Math.hypot(left + x * scale - clientX, top + y * scale - clientY));
  return far.indexOf(Math.min(...far)) / points.length;
}

function letDrag(laps, road) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", road.dataset.road);
  const length = path.getTotalLength();
  const points = Array.from({ length: SAMPLES }, (_, i) => path.getPointAtLength((i / SAMPLES) * length));
  const car = road.querySelector("[role=slider]");
  const run = (on) => laps.classList.toggle("held", !on || CALM.matches);
  const follow = (event) => moveTo(laps, LAP_MS * shareAt(road, points, event));
  road.onpointerdown = (event) => {
    road.setPointerCapture(event.pointerId);
    run(false);
    follow(event);
  };
  road.onpointermove = (event) => road.hasPointerCapture(event.pointerId) && follow(event);
  road.onlostpointercapture = () => run(true);
  car.onfocus = () => run(false);
  car.onblur = () => run(true);
  car.onkeydown = ({ key }) => {
    const by = { ArrowRight: STEP_MS, ArrowLeft: -STEP_MS }[key];
    if (by) moveTo(laps, (car.getAnimations()[0]?.currentTime ?? 0) + by);
  };
}

export default function ({ parentElement }) {
  const laps = parentElement.querySelector(".gdm-laps");
  laps.classList.toggle("held", CALM.matches);
  for (const road of laps.querySelectorAll(".gdm-road")) letDrag(laps, road);
}
