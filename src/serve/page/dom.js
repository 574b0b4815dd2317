// dom.js - small things that all files of the page use: elements, numbers, what is said to the user, and requests.
export const by = (id) => document.getElementById(id);
export const number = new Intl.NumberFormat('en');

export function problem(text) { by('problem').textContent = text; }
export function say(text) { by('status').textContent = text; }

// Text goes in as text: nothing here reads HTML.
export function element(name, properties, ...inside) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
}

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; ++i; }
  return (i === 0 ? n : n.toFixed(1)) + ' ' + units[i];
}

function headers() {
  const key = by('key').value.trim();
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: 'Bearer ' + key } : {}) };
}

// A GET without a body, a POST with one; throws what the server says is wrong.
export async function ask(path, body, signal) {
  const reply = await fetch(path, body === undefined ? { headers: headers(), signal }
    : { method: 'POST', headers: headers(), body: JSON.stringify(body), signal });
  if (reply.ok) return reply;
  let message = 'the server answered ' + reply.status;
  try { message = (await reply.json()).error.message; } catch { /* no JSON */ }
  const wait = reply.headers.get('Retry-After');
  throw Object.assign(new Error(message + (wait ? ' (again in ' + wait + ' s)' : '')), { status: reply.status });
}

// true where the user agrees. The button that deletes nothing has the focus; Escape presses it, too.
export function confirmed(question, what) {
  const dialog = by('confirm');
  by('confirm-question').textContent = question;
  by('confirm-yes').textContent = what;
  return new Promise((resolve) => {
    const close = (yes) => { dialog.onclose = null; dialog.close(); resolve(yes); };
    by('confirm-yes').onclick = () => close(true);
    by('confirm-no').onclick = () => close(false);
    dialog.onclose = () => close(false);
    dialog.showModal();
    by('confirm-no').focus();
  });
}
