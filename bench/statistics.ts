/** Of values in any order; the nearest rank. */
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

/** The median, and the quartiles. */
export function formatSpread(values: readonly number[], format: (value: number) => string = formatNumber): string {
  const [low, high] = quartiles(values);
  return values.length === 1 ? format(median(values)) : `${format(median(values))} (${format(low)} to ${format(high)})`;
}

/** Three digits that count, and no more than the whole number from 100 on. */
export function formatNumber(value: number): string {
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
}
