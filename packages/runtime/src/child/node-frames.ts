import { type DroppedEvents, type NodeEvents, maxMessageBytes, maxTextBytes } from "../node-events.ts";

/** The messages of one report, so that the parent has enough time to read them. */
const maxMessages = 4;

const overheadBytes = 256;

/** Writes as many events as fit into one report; its messages, and the number of events that they contain. */
export function packEvents(events: readonly object[]): { readonly packed: string[][]; readonly count: number } {
  const packed: string[][] = [];
  let count = 0;
  let bytes = Infinity;
  for (const event of events) {
    const json = JSON.stringify(event);
    const size = Buffer.byteLength(json) + 1;
    if (bytes + size > maxMessageBytes - overheadBytes) {
      if (packed.length === maxMessages) {
        break;
      }
      packed.push([]);
      bytes = 0;
    }
    packed.at(-1)?.push(json);
    bytes += size;
    count += 1;
  }
  return { packed, count };
}

/** The message that contains the events, which are JSON. */
export function formatEvents(events: readonly string[], dropped?: DroppedEvents): string {
  const message: NodeEvents = { kind: "nodes", events: [], ...(dropped !== undefined && { dropped }) };
  return formatWithItems(message, events);
}

/** The message as JSON, with items that are JSON already in its first array, which is empty. */
export function formatWithItems(message: object, items: readonly string[]): string {
  return JSON.stringify(message).replace("[]", () => `[${items.join(",")}]`);
}

/** Shortens a text to what takes so many bytes in JSON. */
export function shorten(text: string, maxBytes = maxTextBytes): { readonly text: string; readonly truncated: boolean } {
  // A character takes at most six bytes, as in "\u0000".
  if (6 * text.length <= maxBytes) {
    return { text, truncated: false };
  }
  let shortened = text.slice(0, maxBytes);
  for (let bytes = bytesOf(shortened); bytes > maxBytes; bytes = bytesOf(shortened)) {
    shortened = shortened.slice(0, Math.floor((shortened.length * maxBytes) / bytes));
  }
  return { text: shortened, truncated: shortened.length < text.length };
}

function bytesOf(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}
