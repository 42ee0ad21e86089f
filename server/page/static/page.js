// The one script of the status page: makes the calls that forms name, and keeps sections true while somebody looks.
"use strict";

const token = document.querySelector('meta[name="ottla-token"]')?.content;
const state = document.getElementById("state");
const answers = document.getElementById("answers");

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

// Beside the form for eyes, and in a place that was there before, which is what screen readers listen to.
function told(form, sentence, isRefused) {
  let place = form.querySelector(":scope > .answer");
  if (!place) {
    place = document.createElement("p");
    form.append(place);
  }
  place.className = isRefused ? "answer refusal" : "answer done";
  place.textContent = sentence;
  answers.textContent = sentence;
}

// Whether it was pressed twice, where the form asks whether that is meant.
function isSure(form, button) {
  if (!form.dataset.sure) return true;
  const says = button.textContent;
  if (form.dataset.asked) {
    button.textContent = form.dataset.asked;
    delete form.dataset.asked;
    return true;
  }
  form.dataset.asked = says;
  button.textContent = form.dataset.sure;
  answers.textContent = form.dataset.sure;
  setTimeout(() => {
    if (!form.dataset.asked) return;
    delete form.dataset.asked;
    button.textContent = says;
  }, 5000);
  return false;
}

async function call(form) {
  const button = form.querySelector("button");
  // A disabled button would lose the focus.
  if (button.getAttribute("aria-disabled") === "true" || !isSure(form, button)) return;
  button.setAttribute("aria-disabled", "true");
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
    told(form, error instanceof SyntaxError ? `not JSON: ${error.message}` : "the broker does not respond", true);
  } finally {
    button.removeAttribute("aria-disabled");
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
  else form.querySelector("[role=alert]").textContent = answer ? "Invalid token." : "The broker does not respond.";
}

// What this script or its user has put there: it stays as it is.
const KEPT = ["open", "aria-disabled", "data-asked", "tabindex"];
const isOurs = (node) => node.classList?.contains("answer");

// What is there becomes what has come, node by node: the focus, what is being written and what was opened stay.
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName || old.id !== fresh.id || old.nodeName === "svg") return old.replaceWith(fresh);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !KEPT.includes(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.nodeName === "BUTTON" && old.form?.dataset.asked) return;
  const ids = new Set([...fresh.children].map((each) => each.id));
  for (const each of [...old.children]) if (each.id && !ids.has(each.id)) each.remove();
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    while (place && isOurs(place)) place = place.nextSibling;
    const there = child.id ? [...old.children].find((each) => each.id === child.id) : place;
    if (!there || there.nodeName !== child.nodeName || (there.id ?? "") !== (child.id ?? "")) {
      old.insertBefore(child, place);
      continue;
    }
    if (there === place) place = place.nextSibling;
    else old.insertBefore(there, place);
    become(there, child);
  }
  while (place) {
    const next = place.nextSibling;
    if (!isOurs(place)) place.remove();
    place = next;
  }
}

function put(id, html) {
  const place = document.getElementById(id);
  if (!place) return;
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const around = place.closest("section") ?? place;
  const frame = document.createElement("template");
  frame.innerHTML = html;
  become(place, frame.content.firstElementChild);
  if (!focused || document.activeElement === focused) return;
  // What had the focus has gone: the next Tab goes on where it was.
  const next = focused.isConnected ? focused : document.getElementById(around.id);
  if (next !== focused) next.setAttribute("tabindex", "-1");
  next.focus();
}

let watching = null;
function watch() {
  const address = new URL(location.href);
  address.searchParams.set("events", "");
  watching = new EventSource(address);
  watching.addEventListener("open", () => { document.body.dataset.watched = "yes"; });
  watching.addEventListener("changes", (event) => {
    if (state.textContent) state.textContent = "";
    for (const line of event.data.split("\n")) {
      const change = JSON.parse(line);
      if (change.reload) location.reload();
      else put(change.id, change.html);
    }
  });
  watching.addEventListener("gone", (event) => { state.textContent = JSON.parse(event.data); });
  watching.onerror = () => { state.textContent = "The broker does not respond; showing the last known state."; };
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
