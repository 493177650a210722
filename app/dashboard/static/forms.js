"use strict";
// Forms, buttons and charts: copying, confirming, estimating while one types.

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
    const disable = (all) => form.querySelectorAll("button").forEach((button) => { button.disabled = all; });
    form.addEventListener("submit", () => setTimeout(disable, 0, true)); // the pressed button is sent too
    addEventListener("pageshow", () => disable(false)); // back from where the form led
  }
  for (const button of document.querySelectorAll("[data-hide-when-alive]")) button.hidden = true;
  enliveSelects(document);
  enliveSlow(document);
  document.querySelector("[data-focus]")?.focus();
}

// The chosen targets are no features; what will be fitted to it is told; its rows without a value can be left out.
function enliveTarget(select) {
  const words = document.querySelector("[data-fits-words]");
  const family = select.form.elements.namedItem("family");
  const others = select.form.elements.namedItem("others");
  const unknown = "A number, or a column with classes.";
  const line = document.querySelector("[data-missing-target]");
  const tick = line.querySelector("input");
  function show(event) {
    const missing = Number(select.selectedOptions[0]?.dataset.missing ?? 0);
    line.hidden = !missing;
    words.textContent = ((family?.value ?? "auto") === "auto" && select.selectedOptions[0]?.dataset.fits) || unknown;
    tick.disabled = !missing;
    if (event) tick.checked = true;
    line.querySelector("[data-missing-rows]").textContent = missing === 1 ? "1 row" : `${number(missing)} rows`;
    const targets = [select.value, ...Array.from(others?.selectedOptions ?? [], (option) => option.value)];
    for (const box of select.form.querySelectorAll('input[name="features"]')) {
      box.disabled = targets.includes(box.value) && box.value !== "";
      box.closest("label").classList.toggle("soft", box.disabled);
    }
  }
  select.addEventListener("change", show);
  others?.addEventListener("change", () => show());
  family?.addEventListener("change", () => show());
  show();
}

// Updates the estimated cost and the commands to copy when the form changes.
function enliveEstimate(form) {
  const place = form.querySelector("[data-estimate]");
  let asked = 0;
  let soon = null;
  const offer = () => form.querySelectorAll("[data-declare]").forEach((button) => { button.hidden = false; });
  async function ask() {
    if (!form.elements.namedItem("target").value) return;
    const number = ++asked;
    try {
      const body = new URLSearchParams(new FormData(form));
      const answer = await fetch("/ui/models/estimate", { method: "POST", body, headers: { Accept: "text/html" } });
      if (number !== asked) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) {
        const faults = Array.from(page.querySelectorAll(".wrong, .note.bad li"), (each) => each.textContent);
        const why = page.querySelector("[role=alert] p") ?? page.querySelector(".lead");
        place.textContent = `Not yet possible: ${faults.join("; ") || why.textContent}`;
        return;
      }
      place.replaceChildren(...page.querySelector("[data-estimate]").childNodes);
      const alike = page.querySelector("[data-alike]");
      form.querySelector("[data-alike]").replaceChildren(...alike.childNodes);
      offer();
      const codes = page.querySelectorAll(".snippets code");
      document.querySelectorAll(".snippets code").forEach((code, i) => { code.textContent = codes[i].textContent; });
    } catch { /* the next change asks again */ }
  }
  form.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(ask, 500);
  });
  // The answer to a question fills in the field that it is about.
  form.addEventListener("click", (event) => {
    const { declare, value } = event.target.dataset;
    if (!declare) return;
    const field = form.elements.namedItem(declare);
    field.value = value;
    field.focus();
    ask();
  });
  offer();
  if (!form.dataset.estimated) ask();
}

// The place of a chart is shaded until it is there; without it, its alternative text remains.
function enliveImage(image) {
  const shown = () => image.removeAttribute("data-waits");
  if (image.complete) return;
  image.setAttribute("data-waits", "");
  image.addEventListener("load", shown);
  image.addEventListener("error", shown);
}

// A page of slow parts comes with their places alone; the parts then follow one by one.
async function enliveParts(places) {
  for (const place of places) {
    const words = place.querySelector("[data-part-words]");
    const bar = place.querySelector("progress");
    words.textContent = words.textContent.replace(/^[^:]*: /, "Computing ").replace(/\.$/, " …");
    bar.hidden = false;
    try {
      const answer = await fetch(place.dataset.part, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fault = answer.ok ? null : page.querySelector(".lead");
      const part = answer.ok ? page.querySelector(".part") : null;
      const code = answer.ok && !document.querySelector(".snippets") && page.querySelector(".snippets");
      if (code) place.parentElement.append(code);
      for (const button of code ? code.querySelectorAll("[data-copy]") : []) enliveCopy(button);
      if (fault) words.textContent = fault.textContent;
      place.removeAttribute("aria-busy");
      if (fault) bar.remove();
      else if (part) {
        place.replaceWith(part);
        enlivePart(part);
      } else place.remove();
    } catch {
      words.textContent = "The connection was lost: reload the page.";
      bar.remove();
      return;
    }
  }
}

function enlivePart(part) {
  for (const button of part.querySelectorAll("[data-hide-when-alive]")) button.hidden = true;
  enliveSelects(part);
  enliveSlow(part);
  for (const image of part.querySelectorAll("figure img")) enliveImage(image);
}

function enliveSelects(part) {
  for (const select of part.querySelectorAll("[data-submit-on-change]")) {
    select.addEventListener("change", () => select.form.requestSubmit());
  }
}

// Links to pages that take long to compute say that they work.
function enliveSlow(part) {
  for (const link of part.querySelectorAll("a[data-slow]")) {
    const words = link.textContent;
    let waiting = null;
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab or window
      waiting = setTimeout(() => {
        link.textContent = "Computing …";
        link.setAttribute("aria-busy", "true");
      }, 300); // ms
    });
    addEventListener("pageshow", () => {
      clearTimeout(waiting);
      link.textContent = words;
      link.removeAttribute("aria-busy");
    });
  }
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

// Moved, a slider of lead times shows the total and the claim of that row of its table.
function enliveLead(panel) {
  const slider = panel.querySelector("input[type=range]");
  const rows = panel.querySelectorAll("tbody tr");
  const places = panel.querySelectorAll("[data-told]");
  function show() {
    const row = rows[slider.value - 1];
    const text = (name) => row.getAttribute(`data-${name}`) ?? row.querySelector(`[data-${name}]`).textContent;
    for (const place of places) place.textContent = text(place.dataset.told);
    slider.setAttribute("aria-valuetext", `${text("steps")}, ${text("total")}`);
  }
  slider.addEventListener("input", show);
  slider.addEventListener("change", () => { // the address and the commands are of what is shown
    const here = new URL(location);
    here.searchParams.set("lead", slider.value);
    history.replaceState(history.state, "", here);
    for (const code of document.querySelectorAll(".snippets code")) {
      code.textContent = code.textContent.replace(/("steps": \[\s*1,\s*)\d+/, `$1${slider.value}`);
    }
  });
  addEventListener("pageshow", show); // browsers keep where a slider was
}

for (const button of document.querySelectorAll("[data-copy]")) enliveCopy(button);
for (const panel of document.querySelectorAll("[data-leads]")) enliveLead(panel);
enliveForms();
const estimated = document.querySelector("form[data-estimated]");
if (estimated) {
  enliveTarget(estimated.elements.namedItem("target"));
  enliveEstimate(estimated);
}
const compared = document.querySelector("[data-compare]");
if (compared) enliveCompare(compared);
for (const image of document.querySelectorAll("figure img")) enliveImage(image);
enliveParts(document.querySelectorAll("[data-part]"));
