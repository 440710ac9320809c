import { expect } from "vitest";

/**
 * Compares a documented output with a real one, in which revisions and times are different. Wherever the same revision is in
 * the real one, the documented one must have the same text. `revs` are the revisions of the service.
 */
export function expectOutput(documented: string, real: string, revs: readonly string[]): void {
  // Documents have no space at the end of lines.
  const trimmed = real.replaceAll(/ +$/gm, "");
  // The documented text is the expectation: what differs is then shown line by line.
  expect(patternOf(trimmed, revs).test(documented) ? documented : trimmed).toBe(documented);
}

const minute = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d`;
const second = String.raw`:\d\d`;

function patternOf(real: string, revs: readonly string[]): RegExp {
  const seen = new Set<number>();
  const variable = new RegExp([`${minute}(?:${second})?`, ...revs.map((rev) => rev.slice(0, 8))].join("|"), "g");
  const parts = real.split(variable).map((text) => RegExp.escape(text));
  const between = (real.match(variable) ?? []).map((text) => {
    const index = revs.findIndex((rev) => rev.startsWith(text));
    if (index === -1) {
      return new RegExp(`^${minute}$`).test(text) ? minute : `${minute}${second}`;
    }
    if (seen.has(index)) {
      return String.raw`\k<r${index}>`;
    }
    seen.add(index);
    return String.raw`(?<r${index}>[\w-]{8})`;
  });
  return new RegExp(`^${parts.map((part, index) => part + (between[index] ?? "")).join("")}$`);
}
