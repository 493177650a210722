"use strict";
// The pages work without this file. It adds upload progress, copying and live updates.

const token = document.querySelector('meta[name="csrf-token"]')?.content ?? "";
const thin = " ";

function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(digits)));
  const [whole, part] = text.split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, thin) + (part ? "." + part : "");
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "under a second";
  seconds = Math.round(seconds);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

const percent = (share) => `${Math.round(100 * share)}%`;
const phases = { burn_in: "burn-in" };
const headings = {
  compiling: "Compiling (about a minute, once per machine)",
  burn_in: "Burn-in",
  sampling: "Sampling",
  finishing: "Chains done: judging convergence and scoring held-out rows",
};

// --- uploads -------------------------------------------------------------------------------------------

function showProblem(box, problem) {
  const note = document.createElement("div");
  note.className = "note bad";
  note.setAttribute("role", "alert");
  const said = document.createElement("p");
  said.textContent = `${problem.title}. ${problem.detail}`;
  note.append(said);
  if (problem.errors?.length) {
    const list = document.createElement("ul");
    for (const fault of problem.errors) {
      const item = document.createElement("li");
      const where = [fault.column, fault.row ? `row ${fault.row}` : null].filter(Boolean).join(", ");
      item.textContent = (where ? `${where}: ` : "") + fault.detail;
      list.append(item);
    }
    note.append(list);
  }
  box.replaceChildren(note);
}

// Reading options as query parameters; lists are separated by commas (missing) and lines (kinds).
function readingOf(form) {
  const query = new URLSearchParams();
  for (const field of form.querySelectorAll("[data-reading]")) {
    const parts = field.dataset.reading ? field.value.split(field.dataset.reading === "lines" ? "\n" : ",") : [field.value];
    for (const part of parts) if (part.trim()) query.append(field.name, part.trim());
  }
  return query;
}

function enliveUpload(form) {
  const input = form.querySelector('input[type="file"]');
  const state = form.querySelector("[data-upload-state]");
  const bar = state.querySelector("progress");
  const words = state.querySelector("[data-upload-words]");
  const problems = form.querySelector("[data-upload-problem]");
  const button = form.querySelector("button.primary");
  let sending = null;

  function end() {
    sending = null;
    state.hidden = true;
    button.disabled = false;
  }

  function send() {
    if (sending || !input.files.length) return;
    const request = new XMLHttpRequest();
    sending = request;
    problems.replaceChildren();
    state.hidden = false;
    button.disabled = true;
    bar.value = 0;
    words.textContent = "Sending";
    let said = 0;
    request.upload.addEventListener("progress", (event) => {
      if (!event.lengthComputable) return;
      bar.value = event.loaded / event.total;
      const tenth = Math.floor((10 * event.loaded) / event.total);
      if (tenth !== said) words.textContent = `Sending: ${10 * tenth}%`;
      said = tenth;
    });
    request.upload.addEventListener("load", () => {
      bar.removeAttribute("value"); // now the server reads the file
      words.textContent = "Reading the table";
    });
    request.addEventListener("load", () => {
      let answer = null;
      try { answer = JSON.parse(request.responseText); } catch { /* told below */ }
      if (request.status === 201 && answer) {
        location.assign(`/ui/datasets/${encodeURIComponent(answer.id)}`);
        return;
      }
      end();
      showProblem(problems, answer ?? { title: "The upload failed", detail: `The service answered ${request.status}.` });
    });
    request.addEventListener("error", () => {
      end();
      showProblem(problems, { title: "The upload was interrupted", detail: "Check that the service runs, then send the file again." });
    });
    request.addEventListener("abort", end);
    request.open("POST", `/datasets?${readingOf(form)}`);
    if (token) request.setRequestHeader("X-CSRF-Token", token);
    const body = new FormData();
    const name = form.elements.namedItem("name").value.trim();
    if (name) body.append("name", name);
    body.append("file", input.files[0]);
    request.send(body);
  }

  form.querySelector("[data-upload-stop]").addEventListener("click", () => sending?.abort());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  takeDrops(form, input, () => { if (!sending) send(); });
}

function takeDrops(form, input, then) {
  let depth = 0;
  form.addEventListener("dragenter", (event) => {
    event.preventDefault();
    depth += 1;
    form.classList.add("over");
  });
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("dragleave", () => {
    depth -= 1;
    if (depth <= 0) form.classList.remove("over");
  });
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    form.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    const taken = new DataTransfer();
    taken.items.add(event.dataTransfer.files[0]);
    input.files = taken.files;
    then();
  });
}

// Preview of predictions of a file, without leaving the page, so that the file can then be downloaded.
function enlivePredictFile(form) {
  const input = form.querySelector('input[type="file"]');
  const place = document.querySelector("[data-file-preview]");
  const preview = form.querySelector('button[value="preview"]');
  async function show() {
    if (!input.files.length) return;
    place.textContent = "Predicting …";
    preview.disabled = true;
    const body = new FormData(form);
    body.set("as", "preview");
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.querySelector("[data-file-preview]") ?? page.querySelector("main");
      place.replaceChildren(...found.childNodes);
      for (const part of place.querySelectorAll("[data-hide-when-alive]")) part.hidden = true;
    } catch {
      showProblem(place, { title: "The file was not sent", detail: "Check that the service runs, then try again." });
    }
    preview.disabled = false;
  }
  form.addEventListener("submit", (event) => {
    if (event.submitter?.value !== "preview") return; // a download leaves the page where it is
    event.preventDefault();
    show();
  });
  input.addEventListener("change", show);
  takeDrops(form, input, show);
}

// --- small helpers ---------------------------------------------------------------------------------------

function enliveCopy(button) {
  const code = button.parentElement.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // insecure context: select the text for the keyboard
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

function enliveForms() {
  for (const form of document.querySelectorAll("form[data-confirm]")) {
    form.addEventListener("submit", (event) => {
      if (!confirm(form.dataset.confirm)) event.preventDefault();
    });
  }
  for (const form of document.querySelectorAll("form[data-once]")) {
    form.addEventListener("submit", () => {
      for (const button of form.querySelectorAll("button")) button.disabled = true;
    });
  }
  for (const button of document.querySelectorAll("[data-hide-when-alive]")) button.hidden = true;
  for (const select of document.querySelectorAll("[data-submit-on-change]")) {
    select.addEventListener("change", () => select.form.requestSubmit());
  }
  document.querySelector("[data-focus]")?.focus();
}

// The chosen target is no feature, and its rows without a value can be left out.
function enliveTarget(select) {
  const line = document.querySelector("[data-missing-target]");
  const tick = line.querySelector("input");
  function show(event) {
    const missing = Number(select.selectedOptions[0]?.dataset.missing ?? 0);
    line.hidden = !missing;
    tick.disabled = !missing;
    if (event) tick.checked = true;
    line.querySelector("[data-missing-rows]").textContent = missing === 1 ? "1 row" : `${number(missing)} rows`;
    for (const box of select.form.querySelectorAll('input[name="features"]')) {
      box.disabled = box.value === select.value && box.value !== "";
      box.closest("label").classList.toggle("soft", box.disabled);
    }
  }
  select.addEventListener("change", show);
  show();
}

// Updates the estimated cost and the commands to copy when the form changes.
function enliveEstimate(form) {
  const place = form.querySelector("[data-estimate]");
  let asked = 0;
  let soon = null;
  async function ask() {
    if (!form.elements.namedItem("target").value) return;
    const number = ++asked;
    try {
      const body = new URLSearchParams(new FormData(form));
      const answer = await fetch("/ui/models/estimate", { method: "POST", body, headers: { Accept: "text/html" } });
      if (number !== asked) return;
      if (!answer.ok) {
        place.textContent = "The form has an invalid field, so nothing can be estimated.";
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      place.replaceChildren(...page.querySelector("[data-estimate]").childNodes);
      const codes = page.querySelectorAll(".snippets code");
      document.querySelectorAll(".snippets code").forEach((code, i) => { code.textContent = codes[i].textContent; });
    } catch { /* the next change asks again */ }
  }
  form.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(ask, 500);
  });
  ask();
}

// --- live ----------------------------------------------------------------------------------------------

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
  let phase = heading.textContent;
  // What happened so far, when a new phase begins.
  async function refreshLog() {
    try {
      const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
      document.getElementById("log").replaceChildren(...page.getElementById("log").childNodes);
    } catch { /* the next phase asks again */ }
  }
  follow(panel.dataset.live, (now) => {
    say("fraction", percent(now.fraction));
    say("rate", number(now.iterations_per_second, 3));
    say("eta", duration(now.eta_seconds));
    if (now.state === "running") heading.textContent = headings[now.phase] ?? "Starting";
    if (heading.textContent !== phase) refreshLog();
    phase = heading.textContent;
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
    if (now.draws > 0) panel.querySelector("[data-askable]").hidden = false;
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

// The place of a chart is shaded until it is there; without it, its alternative text remains.
function enliveImage(image) {
  const shown = () => image.removeAttribute("data-waits");
  if (image.complete) return;
  image.setAttribute("data-waits", "");
  image.addEventListener("load", shown);
  image.addEventListener("error", shown);
}

// Ticks beyond the number of models that can be compared are refused at once.
function enliveCompare(form) {
  const boxes = [...form.querySelectorAll('input[name="model"]')];
  const button = form.querySelector("button");
  const show = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    button.disabled = ticked < 2;
    for (const box of boxes) box.disabled = !box.checked && ticked >= 4;
  };
  form.addEventListener("change", show);
  addEventListener("pageshow", show);
  show();
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

for (const form of document.querySelectorAll("form[data-upload]")) enliveUpload(form);
for (const form of document.querySelectorAll("form[data-predict-file]")) enlivePredictFile(form);
for (const button of document.querySelectorAll("[data-copy]")) enliveCopy(button);
enliveForms();
const estimated = document.querySelector("form[data-estimated]");
if (estimated) {
  enliveTarget(estimated.elements.namedItem("target"));
  enliveEstimate(estimated);
}
const panel = document.querySelector("[data-live]");
if (panel) enliveModel(panel);
const charts = document.querySelector("[data-live-charts]");
if (charts?.dataset.liveCharts) enliveCharts(charts);
const list = document.querySelector("[data-live-list]");
if (list) enliveList(list);
const compared = document.querySelector("[data-compare]");
if (compared) enliveCompare(compared);
for (const image of document.querySelectorAll("figure img")) enliveImage(image);
for (const study of document.querySelectorAll("[data-study]")) enliveStudy(study);
