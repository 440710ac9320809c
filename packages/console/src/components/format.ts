const units = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

export function formatBytes(bytes: number): string {
  const exponent = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  const value = bytes / 1024 ** exponent;
  return `${formatNumber(value)} ${units[exponent] ?? ""}`;
}

/** With three digits, or all of its integer part: `0.123`, `41.5`, `4,192`. */
export function formatNumber(value: number): string {
  return value.toLocaleString("en", value < 100 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 });
}

export function formatCount(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 0 });
}
