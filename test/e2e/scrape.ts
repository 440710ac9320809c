import { send } from "./rest.ts";

type Sample = { readonly name: string; readonly labels: Readonly<Record<string, string>>; readonly value: number };

/** One scrape, parsed from Prometheus' text format 0.0.4. */
export type Scrape = {
  readonly text: string;
  /** The type of each metric, by its name. */
  readonly types: ReadonlyMap<string, string>;
  readonly help: ReadonlyMap<string, string>;
  readonly samples: readonly Sample[];
  /** The sum of all samples of this name that have these labels. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number;
};

export async function scrape(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Scrape> {
  const reply = await send(url, "GET", "/metrics", { headers });
  if (reply.status !== 200) {
    throw new Error(`/metrics was answered ${reply.status}: ${reply.body}`);
  }
  return parseScrape(reply.body);
}

/** Throws if a line is invalid. */
export function parseScrape(text: string): Scrape {
  const types = new Map<string, string>();
  const help = new Map<string, string>();
  const samples: Sample[] = [];
  for (const line of text.split("\n").filter((line) => line !== "")) {
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (keyword !== undefined) {
      (keyword === "TYPE" ? types : help).set(name, rest);
    } else {
      samples.push(parseSample(line));
    }
  }
  return {
    text,
    types,
    help,
    samples,
    sum: (name, labels = {}) =>
      samples
        .filter((sample) => sample.name === name)
        .filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
        .reduce((sum, { value }) => sum + value, 0),
  };
}

function parseSample(line: string): Sample {
  const match = /^([a-z_][a-z0-9_]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$/i.exec(line);
  const [, name, labels = "", text = ""] = match ?? [];
  const value = Number(text.replace("Inf", "Infinity"));
  // A metric without observations; Prometheus accepts it.
  if (name === undefined || (Number.isNaN(value) && !/^nan$/i.test(text))) {
    throw new Error(`this is no line of the text format: ${line}`);
  }
  const pairs = [...labels.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", text = ""]) => [key, text]);
  return { name, labels: Object.fromEntries(pairs), value };
}
