import type { Logger } from "pino";
import type { Configuration, CredentialSets } from "../flows/configuration.ts";
import { FlowgateError } from "../errors.ts";
import { type FlowsDocument, parseDocument } from "../flows/document.ts";
import { programFile } from "../program-file.ts";
import { createThread } from "../thread.ts";
import type {
  AnalysisCall,
  AnalysisResult,
  DiffCall,
  DiffResult,
  EncodedConfiguration,
  MergeCall,
  MergeResult,
  PlanCall,
  PlanResult,
  ValidateResult,
} from "./messages.ts";

/** The content of a revision, or of a deployment that is not committed. */
type Content = { readonly flows: FlowsDocument; readonly credentials: CredentialSets };

export type Merge = MergeResult<Content>;

/** Compares, merges and validates flows, and plans deployments. Disposing stops the threads. */
export interface Analysis extends AsyncDisposable {
  /** Rejects with `unavailable` if the thread exits, and with `limit_exceeded` if its heap is too small. */
  diff(sides: Omit<DiffCall<Content>, "kind">): Promise<DiffResult>;
  /** Rejects with `unavailable` if the thread exits, and with `limit_exceeded` if its heap is too small. */
  plan(call: Omit<PlanCall<Content>, "kind">): Promise<PlanResult>;
  /** Rejects with `unavailable` if the thread exits, and with `limit_exceeded` if its heap is too small. */
  merge(versions: Omit<MergeCall<Content>, "kind">): Promise<Merge>;
  /**
   * Validates flows as those of a deployment are. Rejects with `unavailable` if the thread exits, and with `limit_exceeded` if its
   * heap is too small.
   */
  validate(content: Content): Promise<ValidateResult>;
}

/** Flows of up to this size, in total, block the event loop for about 2 ms and need no thread. */
const maxShortBytes = 128 * 1024;

/** A plan of so many nodes, those in instances of subflows included, takes 4 to 8 ms; the first one 30 ms. */
const maxShortNodes = 1_000;

/** Loaded at the first use, since the service can start without it. */
const loadAnalyze = () => import("./analyze.ts");

/** Analyzes large flows in threads with a heap of at most `memoryMb` MiB each, which get their JSON and parse it. */
export function openAnalysis(log: Logger, memoryMb: number): Analysis {
  const openThread = (name: string, verb: "compares" | "validates", participle: string) =>
    createThread<AnalysisCall, AnalysisResult>({
      name,
      entry: programFile("analysis/thread"),
      data: undefined,
      limits: { maxOldGenerationSizeMb: memoryMb },
      outOfMemory: () =>
        new FlowgateError(
          "limit_exceeded",
          `${participle} these flows takes more memory than limits.memoryMb allows: raise it, or make the flows smaller`,
        ),
      onUnexpectedExit: (err) => log.error({ err }, `the thread that ${verb} flows exited`),
    });
  const thread = openThread("flowgate analysis", "compares", "comparing");
  // Restores validate on a separate thread, so that diffs and plans, which need only read permissions, can't delay them.
  const validationThread = openThread("flowgate validation", "validates", "validating");

  return {
    async diff({ base, target, encodes }) {
      if (isShort(base, target)) {
        const { analyzeDiff } = await loadAnalyze();
        return analyzeDiff({ base: parse(base), target: parse(target) });
      }
      const call = { kind: "diff", encodes, base: encode(base), target: encode(target) } as const;
      return (await thread.call(call)) as DiffResult;
    },
    async plan({ base, target, current, ...options }) {
      if (isShort(base, target, current)) {
        const { analyzePlan } = await loadAnalyze();
        const contents = { base: parse(base), target: parse(target), current: parse(current) };
        const result = analyzePlan({ kind: "plan", ...contents, ...options }, maxShortNodes);
        if (result.plan !== undefined) {
          return result;
        }
      }
      const from = encode(base);
      const replaced = current === base ? from : encode(current);
      const call = { kind: "plan", base: from, target: encode(target), current: replaced, ...options } as const;
      return (await thread.call(call)) as PlanResult;
    },
    async merge({ base, ours, theirs }) {
      const call = { kind: "merge", base: encode(base), ours: encode(ours), theirs: encode(theirs) } as const;
      const { merged, ...result } = isShort(base, ours, theirs)
        ? await mergeShort({ kind: "merge", base: parse(base), ours: parse(ours), theirs: parse(theirs) })
        : ((await thread.call(call)) as MergeResult);
      return {
        ...result,
        merged: merged && { flows: parseDocument(merged.json, merged.count), credentials: merged.credentials },
      };
    },
    async validate(content) {
      if (isShort(content)) {
        const { analyzeValidity } = await loadAnalyze();
        return analyzeValidity({ base: parse(content) });
      }
      return (await validationThread.call({ kind: "validate", base: encode(content) })) as ValidateResult;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([thread[Symbol.asyncDispose](), validationThread[Symbol.asyncDispose]()]);
    },
  };
}

async function mergeShort(call: MergeCall<Configuration>): Promise<MergeResult> {
  const { analyzeMerge } = await loadAnalyze();
  return analyzeMerge(call);
}

function isShort(...contents: readonly Content[]): boolean {
  return contents.reduce((bytes, { flows }) => bytes + flows.json.length, 0) <= maxShortBytes;
}

function parse({ flows, credentials }: Content): Configuration {
  return { flows: flows.nodes, credentials };
}

function encode({ flows, credentials }: Content): EncodedConfiguration {
  return { json: flows.json, credentials };
}
