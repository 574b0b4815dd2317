// store.js - the conversations, and what of them the browser keeps: kMostConversations at most, kMostCharacters together.
// A conversation: {id, title, settings, documents: [{name, text, kept}], messages: [{role, content, reasoning, documents, cost}],
// cost}. settings are what the fields of that name say; a message's documents are places in the conversation's.
import { by, problem } from './dom.js';

export const kStore = 'pith.conversations';
const kSettings = 'pith.settings';
export const kMostConversations = 100;
export const kMostCharacters = 4_000_000;  // browsers keep five million for a site

export const kept = { conversations: [], current: null };

// Written by an earlier page: one document for a conversation, a policy and a budget beside it.
function updated(one) {
  if (!one.settings) one.settings = { ...(one.policy ? { policy: one.policy } : {}), ...(one.budget ? { budget: one.budget } : {}) };
  if (!one.documents) one.documents = one.document ? [one.document] : [];
  for (const message of one.messages) if (message.documents === undefined) message.documents = message.document ? [0] : [];
  return one;
}

export function restore() {
  let read = [];
  try { read = JSON.parse(localStorage.getItem(kStore) || '[]'); } catch { /* damaged: begin again */ }
  kept.conversations = (Array.isArray(read) ? read : []).filter((one) => one && Array.isArray(one.messages)).map(updated);
}

// The oldest go where there are too many or they are too long; the one that is shown stays.
export function keep() {
  const texts = kept.conversations.map((one) => JSON.stringify(one));
  let sum = texts.reduce((all, text) => all + text.length + 1, 1);
  let n_gone = 0;
  for (let i = texts.length - 1; i >= 0 && (texts.length > kMostConversations || sum > kMostCharacters); --i) {
    if (kept.conversations[i] === kept.current) continue;
    sum -= texts[i].length + 1;
    texts.splice(i, 1);
    kept.conversations.splice(i, 1);
    ++n_gone;
  }
  try {
    localStorage.setItem(kStore, '[' + texts.join(',') + ']');
    if (n_gone > 0) problem('The oldest ' + (n_gone === 1 ? 'conversation' : n_gone + ' conversations') + ' made room: this browser keeps no more.');
  } catch {
    problem('This browser has no room left for the conversations: they last until the page is closed. Delete some.');
  }
}

export function titleOf(one) { return one.title || 'New conversation'; }

// ---- settings: of a conversation, and those that a new one begins with ----

const kTexts = ['policy', 'budget', 'system'];
const kNumbers = ['temperature', 'top_p', 'top_k', 'min_p', 'seed', 'max_tokens'];

export function settingsOfNew() {
  try { return JSON.parse(localStorage.getItem(kSettings)) || {}; } catch { return {}; }
}

export function showSettings(settings) {
  for (const name of [...kTexts, ...kNumbers]) by(name).value = settings[name] ?? '';
}

// What the fields say: what is empty is the server's.
export function readSettings() {
  const settings = {};
  for (const name of kTexts) if (by(name).value.trim() !== '') settings[name] = by(name).value.trim();
  for (const name of kNumbers) if (by(name).value !== '') settings[name] = Number(by(name).value);
  try { localStorage.setItem(kSettings, JSON.stringify(settings)); } catch { /* no room: they hold for this page */ }
  return settings;
}

// As a request has them; the system prompt is a message.
export function settingsOfRequest(settings) {
  const body = Object.fromEntries(kNumbers.filter((name) => settings[name] !== undefined).map((name) => [name, settings[name]]));
  if (settings.policy) body.kv_policy = settings.policy;
  if (settings.budget) body.kv_budget = /^\d+$/.test(settings.budget) ? Number(settings.budget) : settings.budget;
  return body;
}
