"use strict";
// Files: upload with progress, and predictions of a file, by choosing or dropping one.

const token = document.querySelector('meta[name="csrf-token"]')?.content ?? "";

// Options of a request by the words of the form.
function inWords(text) {
  return text
    .replace(/ \((?:perhaps )?\?(?:kind=.*?:\w+|\w+=[^()]*)\)/g, "")
    .replace(/\bpass (?=\?)/g, "choose ")
    .replace(/\?kind=.*?:(number|boolean|date|category|text)/g, "the kind $1")
    .replace(/\?(\w+)=([\w-]+)/g, (option, name, value) => {
      const label = document.querySelector(`label[for="${name}"]`);
      const choice = document.querySelector(`#${name} option[value="${value}"]`);
      return label ? `“${label.textContent}: ${choice?.textContent ?? value}”` : option;
    });
}

function showProblem(box, problem) {
  const note = document.createElement("div");
  note.className = "note bad";
  note.setAttribute("role", "alert");
  const said = document.createElement("p");
  said.textContent = `${problem.title}. ${inWords(problem.detail)}`;
  note.append(said);
  if (problem.errors?.length) {
    const list = document.createElement("ul");
    for (const fault of problem.errors) {
      const item = document.createElement("li");
      const where = [fault.column, fault.row ? `row ${fault.row}` : null].filter(Boolean).join(", ");
      item.textContent = (where ? `${where}: ` : "") + inWords(fault.detail);
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

for (const form of document.querySelectorAll("form[data-upload]")) enliveUpload(form);
for (const form of document.querySelectorAll("form[data-predict-file]")) enlivePredictFile(form);
