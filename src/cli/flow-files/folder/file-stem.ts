/** Names that Windows reserves for devices. */
const reserved = /^(?:con|prn|aux|nul|com\d|lpt\d)$/;

/**
 * Makes a file name without extension from a label: letters, digits and hyphens in lower case, at most 50, without accents. `fallback` is the
 * name for a label that has no letters and digits.
 */
export function toFileStem(label: string, fallback: string): string {
  const words = label
    .toWellFormed()
    .normalize("NFKD")
    .replaceAll(/[\u0300-\u036f]/g, "")
    .normalize("NFC")
    .toLowerCase()
    .match(/[\p{L}\p{N}\p{M}]+/gu);
  const [stem = ""] = /^.{0,50}(?<!-)/u.exec((words ?? []).join("-")) ?? [];
  return stem === "" || reserved.test(stem) ? [stem, fallback].filter((part) => part !== "").join("-") : stem;
}
