/** Returns the quantile by nearest rank. Values may be in any order. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return (quantile(values, 0.5) + quantile(values, (values.length - 1) / 2 / values.length)) / 2;
}

export function quartiles(values: readonly number[]): [low: number, high: number] {
  return [quantile(values, 0.25), quantile(values, 0.75)];
}

/** Formats the median, and the quartiles if there are several values. */
export function formatSpread(values: readonly number[], format: (value: number) => string = formatNumber): string {
  const [low, high] = quartiles(values);
  return values.length === 1 ? format(median(values)) : `${format(median(values))} (${format(low)} to ${format(high)})`;
}

/** Formats with three significant digits, or as an integer from 100 on. */
export function formatNumber(value: number): string {
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
}
