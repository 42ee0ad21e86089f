// The one script of the status page: makes the calls that forms name, and keeps sections true while somebody looks.
"use strict";

const token = document.querySelector('meta[name="ottla-token"]')?.content;
const state = document.getElementById("state");

// A field's name, where `data-call` has it in braces, goes into the path; all others go into the JSON body.
// `data-type` says as what: number, boolean, list (of lines), json; text unless given. Empty fields are left out.
const read = {
  number: (text) => Number(text),
  boolean: (text) => text === "true",
  list: (text) => text.split("\n").filter((line) => line !== ""),
  json: (text) => JSON.parse(text),
};

function asked(form) {
  const [method, template] = form.dataset.call.split(" ");
  const fields = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || (field.type === "radio" && !field.checked)) continue;
    const text = field.type === "checkbox" ? String(field.checked) : field.value;
    if (text === "" && !field.hasAttribute("data-empty")) continue;
    fields[field.name] = field.type === "checkbox" ? field.checked : (read[field.dataset.type] ?? String)(text);
  }
  const path = template.replace(/\{(\w+)\}/g, (_, name) => {
    const found = encodeURIComponent(fields[name]);
    delete fields[name];
    return found;
  });
  // `object.name` becomes the entry `name` of the object: {"configs": {…}}, say.
  for (const name of Object.keys(fields).filter((each) => each.includes("/"))) {
    const [object, entry] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
    fields[object] = { ...(fields[object] ?? {}), [entry]: fields[name] };
    delete fields[name];
  }
  if (method !== "DELETE") return [method, path, fields];
  const query = new URLSearchParams(fields).toString();
  return [method, query ? `${path}?${query}` : path, null];
}

function told(form, sentence, isRefused) {
  let place = form.querySelector(".answer");
  if (!place) {
    place = document.createElement("p");
    place.setAttribute("role", "status");
    form.append(place);
  }
  place.className = isRefused ? "answer refusal" : "answer done";
  place.textContent = sentence;
  state.textContent = sentence;
}

async function call(form) {
  const button = form.querySelector("button");
  if (form.dataset.sure && !form.dataset.asked) {
    form.dataset.asked = "yes";
    button.textContent = form.dataset.sure;
    setTimeout(() => { delete form.dataset.asked; }, 5000);
    return;
  }
  button.disabled = true;
  try {
    const [method, path, body] = asked(form);
    const headers = { Authorization: `Bearer ${token}` };
    if (body !== null) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, { method, headers, body: body === null ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    const found = text ? JSON.parse(text) : {};
    if (answer.ok) {
      told(form, form.dataset.done ?? "Done.", false);
      if (form.dataset.next) location.href = form.dataset.next;
    } else told(form, found.error ?? answer.statusText, true);
  } catch (error) {
    told(form, error instanceof SyntaxError ? `not JSON: ${error.message}` : "the broker does not answer", true);
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.id === "login") {
    event.preventDefault();
    login(form);
  } else if (form.dataset.call) {
    event.preventDefault();
    call(form);
  }
});

async function login(form) {
  const headers = { Authorization: `Bearer ${form.elements.token.value}` };
  const answer = await fetch("/login", { method: "POST", headers }).catch(() => null);
  if (answer?.ok) location.reload();
  else form.querySelector("[role=alert]").textContent = answer ? "That is not the token." : "The broker does not answer.";
}

// What somebody is busy with stays as it is: a field that is being written, a button about to be pressed.
const isBusy = (place) => place.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");

function put(id, html) {
  const place = document.getElementById(id);
  if (!place || isBusy(place)) return;
  const open = [...place.querySelectorAll("details[open]")].map((each) => each.id);
  const answers = [...place.querySelectorAll("form[data-call] .answer")].map((each) => [each.closest("form").dataset.call, each]);
  const focused = place.contains(document.activeElement) ? document.activeElement.closest("[id]")?.id : null;
  const frame = document.createElement("template");
  frame.innerHTML = html;
  const fresh = frame.content.firstElementChild;
  place.replaceWith(fresh);
  for (const each of open) document.getElementById(each)?.setAttribute("open", "");
  for (const [of, answer] of answers) fresh.querySelector(`form[data-call="${CSS.escape(of)}"]`)?.append(answer);
  if (focused && focused !== id) document.getElementById(focused)?.focus();
}

let watching = null;
function watch() {
  const address = new URL(location.href);
  address.searchParams.set("events", "");
  watching = new EventSource(address);
  watching.addEventListener("changes", (event) => {
    state.textContent = "";
    for (const line of event.data.split("\n")) {
      const change = JSON.parse(line);
      if (change.reload) location.reload();
      else put(change.id, change.html);
    }
  });
  watching.addEventListener("gone", (event) => { state.textContent = JSON.parse(event.data); });
  watching.onerror = () => { state.textContent = "The broker does not answer; this is what was seen last."; };
}

// A browser has six connections to one address: pages that nobody sees leave theirs to others.
function watchWhileSeen() {
  if (document.hidden) {
    watching?.close();
    watching = null;
  } else if (!watching) watch();
}

if (token) {
  document.addEventListener("visibilitychange", watchWhileSeen);
  watchWhileSeen();
}
