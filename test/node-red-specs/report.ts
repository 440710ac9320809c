import { formatTable } from "../../bench/report/tables.ts";
import type { Exchange } from "./forwarded-request.ts";
import type { SpecResult } from "./specs.ts";

/**
 * - `passed`, `failed`: passes with a real Node-RED, and with this service or not.
 * - `compared`: does not pass with a real Node-RED, which never answers as the stubs of the test do. The two responses are compared instead.
 * - `inside`: sends no request.
 * - `broken`: does not pass with its own routers.
 */
type Kind = "passed" | "failed" | "compared" | "inside" | "broken";

export type Verdict = {
  readonly file: string;
  readonly title: string;
  readonly kind: Kind;
  /** The requests for which this service differs from Node-RED, and how. */
  readonly differences: readonly Difference[];
};

type Difference = { readonly request: string; readonly details: string };

/** Why this service answers these requests otherwise. */
const reasons: readonly (readonly [request: RegExp, reason: string])[] = [
  [/^POST \/flow$/, "nodes may be absent: the tab is empty then"],
  [/^PUT \/flow\/\w+$/, "the body must not be absent: the tab would lose all of its nodes"],
  [/^POST \/flows$/, "a rev that is not a string is malformed, and no mismatch"],
  [/^PUT \/nodes\//, "the message of the error says what is wrong"],
  [/^GET \/nodes\/.*messages$/, "the language may be absent"],
  [/^GET \/library\/local\/flows\//, "entries are also found without .json, and what is absent is 404"],
  [/^POST \/library\/local\/non-flow\//, "entries may have any type, also one that no node has registered"],
  [/^[A-Z]+ \/settings\/user\/keys/, "there are no projects, and no keys for them"],
];

/** Compares the results of the tests with their own routers, with a real Node-RED, and with this service. */
export function judge(
  own: readonly SpecResult[],
  nodeRed: readonly SpecResult[],
  service: readonly SpecResult[],
): Verdict[] {
  return own.map((result, index) => {
    const [expected, found] = [nodeRed[index], service[index]];
    if (expected?.title !== result.title || found?.title !== result.title) {
      throw new Error(`a run lacks the test ${result.title}`);
    }
    const { file, title } = result;
    const kind = kindOf(result, expected, found);
    const differences = compare(expected.exchanges, found.exchanges);
    if (kind !== "failed" || differences.length > 0) {
      return { file, title, kind, differences };
    }
    // The test asserts more than what is compared.
    const details = `  ${found.failure}`;
    return { file, title, kind, differences: found.exchanges.map((each) => ({ request: nameOf(each), details })) };
  });
}

function kindOf(own: SpecResult, nodeRed: SpecResult, service: SpecResult): Kind {
  if (own.failure !== undefined) {
    return "broken";
  }
  if (own.exchanges.length === 0) {
    return "inside";
  }
  if (nodeRed.failure !== undefined) {
    return "compared";
  }
  return service.failure === undefined ? "passed" : "failed";
}

function compare(expected: readonly Exchange[], found: readonly Exchange[]): Difference[] {
  return expected.flatMap((exchange, index) => {
    const other = found[index];
    return other !== undefined && isLike(exchange, other)
      ? []
      : [{ request: nameOf(exchange), details: `  Node-RED: ${show(exchange)}\n  this service: ${show(other)}` }];
  });
}

/** The code of an error that Node-RED does not expect. */
const unexpected = "unexpected_error";

/** Whether a response has the status of Node-RED's, the code of its error, and the members of its result, whose values can't be the same. */
function isLike(nodeRed: Exchange, service: Exchange): boolean {
  if (nodeRed.status !== service.status) {
    return false;
  }
  const [expected, found] = [readJson(nodeRed), readJson(service)];
  if (nodeRed.status >= 400) {
    const { code = unexpected } = expected as { code?: unknown };
    return code === unexpected || code === (found as { code?: unknown }).code;
  }
  return (
    nodeRed.type === service.type &&
    Array.isArray(expected) === Array.isArray(found) &&
    (Array.isArray(expected) || Object.keys(expected).every((name) => name in found))
  );
}

function readJson({ type, body }: Exchange): object {
  return type === "application/json" && body !== "" ? (Object(JSON.parse(body)) as object) : {};
}

function nameOf({ method, path }: Exchange): string {
  return `${method} ${path}`;
}

function show(exchange: Exchange | undefined): string {
  return exchange === undefined ? "no response" : `${exchange.status} ${exchange.type} ${exchange.body.slice(0, 300)}`;
}

/** The report, and whether all differences have a reason, and all reasons a difference. */
export function formatReport(
  verdicts: readonly Verdict[],
  isVerbose: boolean,
): { readonly text: string; readonly isExpected: boolean } {
  const groups = Map.groupBy(verdicts, ({ differences: [first] }) => first && reasonOf(first.request));
  const unexplained = (groups.get(undefined) ?? []).filter(({ kind, differences }) =>
    kind === "broken" ? true : differences.length > 0,
  );
  const explained = reasons.map(([, reason]) => ({ reason, verdicts: groups.get(reason) ?? [] }));
  const missing = explained.filter(({ verdicts }) => verdicts.length === 0);
  const lines = [
    formatTable([...countByFile(verdicts), countRow("all", verdicts)]),
    ...explained.flatMap(({ reason, verdicts }) => [
      `${verdicts.length} differ: ${[...new Set(verdicts.flatMap(requestsOf))].join(", ")}: ${reason}`,
      ...(isVerbose ? verdicts.map(describe) : []),
    ]),
    ...unexplained.map((verdict) => `NOT EXPECTED: ${describe(verdict)}`),
    ...missing.map(({ reason }) => `NO LONGER THE CASE: ${reason}`),
  ];
  return { text: `${lines.join("\n")}\n`, isExpected: unexplained.length + missing.length === 0 };
}

function reasonOf(request: string): string | undefined {
  return reasons.find(([pattern]) => pattern.test(request))?.[1];
}

function countByFile(verdicts: readonly Verdict[]): Record<string, string>[] {
  return [...Map.groupBy(verdicts, ({ file }) => file)].map(([file, ofFile]) => countRow(file, ofFile));
}

function countRow(name: string, verdicts: readonly Verdict[]): Record<string, string> {
  const count = (isCounted: (verdict: Verdict) => boolean): string => String(verdicts.filter(isCounted).length);
  const kinds: readonly Kind[] = ["passed", "failed", "compared", "inside", "broken"];
  return {
    "": name,
    ...Object.fromEntries(kinds.map((kind) => [kind, count((verdict) => verdict.kind === kind)])),
    "differ from Node-RED": count(({ differences }) => differences.length > 0),
  };
}

function requestsOf({ differences }: Verdict): string[] {
  return differences.map(({ request }) => request);
}

function describe({ kind, title, differences }: Verdict): string {
  return [`${kind}: ${title}`, ...differences.map(({ request, details }) => `  ${request}\n${details}`)].join("\n");
}
