"use strict";
// Progress of fits and studies, followed while they run.

const phases = { burn_in: "burn-in" };
const headings = {
  compiling: "Compiling (once per machine; a default fit takes about a quarter of a minute)",
  burn_in: "Burn-in",
  sampling: "Sampling",
  finishing: "Chains done: judging convergence and scoring held-out rows",
  judging: "Chains done: judging convergence",
  recalibrating: "Chains done: making intervals hold by held-out rows",
  scoring: "Chains done: scoring held-out rows",
  calibrating: "Chains done: calibrating intervals by held-out rows",
};

const ENDS = ["succeeded", "failed", "cancelled", "deleted"];

// An EventSource reconnects by itself, except after a refusal, or when a lost network leaves it open unnoticed.
// In those cases this code reconnects, with growing delays.
const SOONEST = 2000, LATEST = 30000, SILENCE = 40000; // ms
function follow(address, onEvent, ends, onEnd, onTrouble) {
  let source = null, pause = SOONEST, waiting = null, quiet = null;
  let last = null; // a final kind, which counts only once the service closes the stream
  function stop() {
    clearTimeout(waiting);
    clearTimeout(quiet);
    source?.close();
  }
  function again(after) {
    stop();
    waiting = setTimeout(open, after);
  }
  function alive() {
    pause = SOONEST;
    clearTimeout(quiet);
    quiet = setTimeout(() => again(0), SILENCE);
    onTrouble(false);
  }
  function open() {
    stop();
    source = new EventSource(address);
    last = null;
    source.addEventListener("open", alive);
    source.addEventListener("progress", (event) => {
      alive();
      last = null;
      onEvent(JSON.parse(event.data));
    });
    for (const kind of ends) source.addEventListener(kind, () => { last = kind; });
    source.addEventListener("error", () => {
      if (last) {
        stop();
        onEnd(last);
        return;
      }
      onTrouble(true);
      again(pause);
      pause = Math.min(2 * pause, LATEST);
    });
  }
  addEventListener("online", () => again(0));
  addEventListener("offline", () => onTrouble(true));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  open();
}

function enliveModel(panel) {
  const say = (name, text) => { panel.querySelector(`[data-words="${name}"]`).textContent = text; };
  const status = panel.querySelector("[data-live-status]");
  const announced = panel.querySelector("[data-live-announced]");
  const heading = panel.querySelector("[data-phase]");
  const charts = document.querySelector("[data-live-charts='']");
  const redraw = charts && redrawn(charts);
  const tag = document.querySelector("[data-state]");
  let told = -1;
  follow(panel.dataset.live, (now) => {
    say("fraction", percent(now.fraction));
    say("rate", number(now.iterations_per_second, 3));
    say("eta", duration(now.eta_seconds));
    if (now.state === "running") heading.textContent = headings[now.step ?? now.phase] ?? "Starting";
    redraw?.(now);
    tag.className = `tag ${now.state}`;
    tag.textContent = now.state;
    for (const chain of now.chains) {
      const bar = panel.querySelector(`progress[data-chain="${chain.chain}"]`);
      if (!bar) continue;
      bar.max = chain.iterations || 1;
      bar.value = chain.state === "done" ? bar.max : chain.iteration;
      panel.querySelector(`[data-chain-words="${chain.chain}"]`).textContent = chain.state === "running"
        ? `${phases[chain.phase] ?? chain.phase ?? "starting"} ${number(chain.iteration)} of ${number(chain.iterations)}`
        : chain.state;
    }
    const quarter = Math.floor(4 * now.fraction);
    if (quarter !== told) announced.textContent = `${percent(now.fraction)} done`; // four times in all
    told = quarter;
    const askable = panel.querySelector("[data-askable]"); // none where whole forecasts are asked for
    if (askable && now.draws > 0) askable.hidden = false;
  }, ENDS, (kind) => {
    if (kind === "deleted") location.assign("/ui/models");
    else location.reload();
  }, (trouble) => {
    panel.classList.toggle("stale", trouble);
    if (trouble) status.textContent = "The connection was lost; reconnecting. The fit continues meanwhile.";
    else if (status.textContent.startsWith("The connection")) status.textContent = "";
  });
}

// Charts during a fit: reloaded when there are more draws, at most every few seconds.
function redrawn(charts) {
  let waiting = false;
  let shown = 0;
  return async (now) => {
    if (waiting || now.draws <= shown) return;
    shown = now.draws;
    waiting = true;
    setTimeout(() => { waiting = false; }, 4000);
    if (!charts.querySelector("img")) { // the page was made before there were draws
      try {
        const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
        charts.replaceChildren(...page.querySelector("[data-live-charts='']").childNodes);
      } catch { shown = 0; }
    }
    for (const part of charts.querySelectorAll("img, source")) {
      const name = part.tagName === "IMG" ? "src" : "srcset";
      part.setAttribute(name, part.getAttribute(name).replace(/v=[^&]*/, `v=${now.draws}`));
    }
    charts.hidden = false;
  };
}

function enliveCharts(charts) {
  follow(charts.dataset.liveCharts, redrawn(charts), ENDS, () => location.reload(), () => {});
}

function enliveList(table) {
  const rows = [...table.querySelectorAll('tr[data-open="yes"]')];
  if (!rows.length) return;
  const ids = rows.map((row) => row.dataset.model).join(",");
  const byId = new Map(rows.map((row) => [row.dataset.model, row]));
  follow(`/ui/events?models=${encodeURIComponent(ids)}`, (now) => {
    const row = byId.get(now.model);
    if (!row) return;
    row.querySelector("[data-fraction]").value = now.fraction;
    row.querySelector("[data-words]").textContent = percent(now.fraction);
    row.querySelector("[data-eta]").textContent = duration(now.eta_seconds);
    const tag = row.querySelector("[data-state]");
    tag.className = `tag ${now.state}`;
    tag.textContent = now.state;
  }, ["end"], () => location.reload(), (trouble) => table.classList.toggle("stale", trouble));
}

// A study: its part of the page is fetched until it has ended.
function enliveStudy(section) {
  const part = "[data-progress]";
  async function look() {
    try {
      const answer = await fetch(section.dataset.study, { headers: { Accept: "text/html" } });
      const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-study]");
      if (!now) {
        location.reload();
        return;
      }
      section.querySelector(part).replaceWith(now.querySelector(part));
    } catch { /* the next look asks again */ }
    setTimeout(look, 1000);
  }
  setTimeout(look, 1000);
}

const panel = document.querySelector("[data-live]");
if (panel) enliveModel(panel);
const charts = document.querySelector("[data-live-charts]");
if (charts?.dataset.liveCharts) enliveCharts(charts);
const list = document.querySelector("[data-live-list]");
if (list) enliveList(list);
for (const study of document.querySelectorAll("[data-study]")) enliveStudy(study);
